"""Feature levels: they change when every broker can follow, and no record is written that a broker cannot replay."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.controller.test_quorum_controller import with_controller
from tests.unit.metadata.images import broker, cluster, replayed

from tidelog.controller.core.decision import Decision
from tidelog.controller.core.features import (
    SAFE_DOWNGRADE,
    UNSAFE_DOWNGRADE,
    UPGRADE,
    FeatureUpdate,
    decide_update_features,
)
from tidelog.controller.service import ControllerService
from tidelog.metadata import table
from tidelog.metadata.features import TIDELOG_VERSION
from tidelog.metadata.image import BrokerImage
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.protocol.generated.feature_level_record import FeatureLevelRecord
from tidelog.protocol.generated.no_op_record import NoOpRecord


def test_features_change_when_every_broker_can() -> None:
    image = cluster(broker(1)._replace(features=(("transaction.version", 0, 2), ("group.version", 0, 0))))
    image = replayed(image, decide_update_features(image, [FeatureUpdate("transaction.version", 2)]).records)[0]
    assert image.features == {"transaction.version": 2}
    for update in (
        FeatureUpdate("group.version", 1),
        FeatureUpdate("transaction.version", 3),
        FeatureUpdate("transaction.version", 1),
        FeatureUpdate("no.such", 1),
        FeatureUpdate("transaction.version", 1, 9),
    ):
        with pytest.raises(BrokerError) as raised:
            decide_update_features(image, [update])
        assert raised.value.code == ErrorCode.INVALID_UPDATE_VERSION
    lower = decide_update_features(image, [FeatureUpdate("transaction.version", 0, 2)])
    assert replayed(image, lower.records)[0].features == {}
    assert decide_update_features(image, [FeatureUpdate("transaction.version", 0, 2)], validate_only=True).records == []


def speaks(node_id: int, level: int) -> BrokerImage:
    return broker(node_id)._replace(features=((TIDELOG_VERSION, 0, level),))


def test_a_level_waits_for_the_last_broker_even_if_it_is_fenced() -> None:
    update = [FeatureUpdate(TIDELOG_VERSION, 1)]
    older = broker(2, fenced=True)
    with pytest.raises(BrokerError, match="Broker 2 supports versions 0-0") as raised:
        decide_update_features(cluster(speaks(1, 1), older), update)
    assert raised.value.code == ErrorCode.INVALID_UPDATE_VERSION
    image = cluster(speaks(1, 1), speaks(2, 1))
    assert replayed(image, decide_update_features(image, update).records)[0].features == {TIDELOG_VERSION: 1}


@pytest.mark.parametrize("how", [UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE])
def test_the_level_of_records_never_goes_down(how: int) -> None:
    image = cluster(speaks(1, 1))
    image = replayed(image, [FeatureLevelRecord(name=TIDELOG_VERSION, feature_level=1)])[0]
    with pytest.raises(BrokerError) as raised:
        decide_update_features(image, [FeatureUpdate(TIDELOG_VERSION, 0, how)])
    assert raised.value.code == ErrorCode.INVALID_UPDATE_VERSION


def test_a_record_is_written_from_its_level_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def decide(_: object) -> Decision[str]:
        return Decision([NoOpRecord()], "written")

    async def use(service: ControllerService) -> None:
        assert service.image.features[TIDELOG_VERSION] == 2
        for level, is_written in ((2, True), (3, False)):
            monkeypatch.setattr(table, "LEVELS", {NoOpRecord: level})
            offset = service.image.offset
            if is_written:
                assert await service.submit(decide) == "written"
                assert service.image.offset == offset + 1
                continue
            with pytest.raises(BrokerError, match=r"needs tidelog.version 3, and the cluster is at 2.*cluster upgrade"):
                await service.submit(decide)
            assert service.image.offset == offset

    with_controller(tmp_path, use)


def test_levels_are_collected_from_the_sub_deltas(monkeypatch: pytest.MonkeyPatch) -> None:
    first, *_ = table.SUB_DELTAS
    monkeypatch.setattr(first, "LEVELS", {NoOpRecord: 3})
    assert table.levels_of(table.SUB_DELTAS)[NoOpRecord] == 3
