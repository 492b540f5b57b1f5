"""Publishing: everyone hears of every image, in order, also when one of them fails."""

import logging

import pytest
from tests.unit.metadata.images import cluster, replayed

from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import MetadataImage
from tidelog.metadata.publisher import MetadataPublisher
from tidelog.protocol.generated.no_op_record import NoOpRecord


def test_a_subscriber_that_fails_does_not_keep_the_others_from_hearing(caplog: pytest.LogCaptureFixture) -> None:
    publisher = MetadataPublisher(cluster())
    heard: list[int] = []

    def fail(image: MetadataImage, delta: MetadataDelta) -> None:
        raise RuntimeError("broken")

    publisher.subscribe(fail)
    publisher.subscribe(lambda image, delta: heard.append(image.offset))
    publisher.subscribe(lambda image, delta: heard.append(publisher.image.offset))
    with caplog.at_level(logging.ERROR):
        publisher.publish(*replayed(publisher.image, [NoOpRecord()]))
    assert heard == [1, 1]
    assert "failed at offset 1" in caplog.text
