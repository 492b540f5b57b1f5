"""The key of HTTP sessions is made once, when a node with an HTTP door is there and every node can replay it."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.controller.quorums import MemoryCluster, memory_node, registration, stop
from tests.unit.metadata.images import broker, cluster, replayed

from tidelog.config.broker import BrokerConfig
from tidelog.controller.core.session_keys import decide_session_key
from tidelog.controller.session_keys import SessionKeyMaker
from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.features import TIDELOG_VERSION
from tidelog.metadata.image import BrokerImage, Endpoint, MetadataImage
from tidelog.metadata.session_keys import SessionKeysImage
from tidelog.protocol.generated.feature_level_record import FeatureLevelRecord

HTTP = Endpoint("HTTP", "host", 8080)


def with_http(node_id: int) -> BrokerImage:
    known = broker(node_id)
    return known._replace(endpoints=(*known.endpoints, HTTP))


def at_level(image: MetadataImage, level: int) -> MetadataImage:
    return replayed(image, [FeatureLevelRecord(name=TIDELOG_VERSION, feature_level=level)])[0]


def random_bytes(size: int) -> bytes:
    return bytes(range(size))


def test_it_is_made_for_the_first_http_door() -> None:
    image = at_level(cluster(broker(1), with_http(2)), 2)
    decision = decide_session_key(image, random_bytes)
    assert decision.reply
    image = replayed(image, decision.records)[0]
    assert dict(image.part(SessionKeysImage).by_id) == {1: bytes(range(32))}
    again = decide_session_key(image, random_bytes)
    assert not again.reply
    assert again.records == []


@pytest.mark.parametrize(
    "image", [at_level(cluster(broker(1)), 2), at_level(cluster(with_http(1)), 1), cluster(with_http(1))]
)
def test_it_is_not_made_before_it_is_needed_and_known(image: MetadataImage) -> None:
    assert decide_session_key(image, random_bytes).records == []


def test_the_active_controller_makes_it_by_itself() -> None:
    async def run() -> None:
        memory = MemoryCluster()
        services = [await memory_node(memory, BrokerConfig(node_id=node_id)) for node_id in (1, 2)]
        makers = [SessionKeyMaker(service.quorum_controller, random_bytes) for service in services]
        for service, maker in zip(services, makers, strict=True):
            service.metadata.subscribe(maker.metadata_changed)
        memory.elect(1)
        await services[0].duties.register(registration(1), is_own=True)
        assert services[0].image.part(SessionKeysImage).newest is None
        await services[0].duties.register(registration(2)._replace(endpoints=(*registration(2).endpoints, HTTP)))
        async with asyncio.timeout(5):
            while any(service.image.part(SessionKeysImage).newest is None for service in services):
                await asyncio.sleep(0.001)
        [first, second] = [service.image.part(SessionKeysImage).by_id for service in services]
        assert first == second == {1: bytes(range(32))}
        for service, maker in zip(services, makers, strict=True):
            await maker.stop()
            await stop(service)

    asyncio.run(run())


def test_a_door_without_tokens_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        service = await memory_node(MemoryCluster(), BrokerConfig(node_id=2))
        maker = SessionKeyMaker(service.quorum_controller, random_bytes)
        for image in (
            at_level(cluster(broker(2), with_http(1)), 1),
            at_level(cluster(with_http(2)), 2),
            at_level(cluster(with_http(2)), 1),
            at_level(cluster(with_http(2)), 1),
        ):
            maker.metadata_changed(image, MetadataDelta(image))
        await maker.stop()
        await stop(service)

    with caplog.at_level("INFO", "tidelog.controller"):
        asyncio.run(run())
    [line] = [each for each in caplog.messages if "HTTP sessions" in each]
    assert "the cluster is at tidelog.version 1 and their key needs 2: `tidelog cluster upgrade`" in line
