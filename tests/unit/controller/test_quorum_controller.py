"""The controller on a real metadata log: what was answered is there after every kind of end."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.unit.controller.quorums import ENDPOINT, disk_node, register, stop

from tidelog.controller.core.decision import Decision
from tidelog.controller.core.topics import NewTopic
from tidelog.controller.producer_ids import ProducerIds
from tidelog.controller.service import ControllerService
from tidelog.metadata.features import BOOTSTRAP
from tidelog.metadata.image import MetadataImage
from tidelog.model.errors import BrokerError, ErrorCode

R = TypeVar("R")


async def started(path: Path, **settings: Any) -> ControllerService:
    service = await disk_node(path, **settings)
    await register(service, fenced=False)
    return service


def with_controller(path: Path, use: Callable[[ControllerService], Awaitable[R]], **settings: Any) -> R:
    async def run() -> R:
        controller = await started(path, **settings)
        try:
            return await use(controller)
        finally:
            await stop(controller)

    return asyncio.run(run())


def loaded(path: Path, **settings: Any) -> MetadataImage:
    async def run() -> MetadataImage:
        controller = await disk_node(path, **settings)
        image = controller.image
        await stop(controller)
        return image

    return asyncio.run(run())


async def create(controller: ControllerService, name: str, partitions: int = 1) -> None:
    [outcome] = await controller.create_topics([NewTopic(name, partitions)])
    assert outcome.error is None


def snapshots(path: Path) -> list[str]:
    return sorted(file.name for file in (path / "__cluster_metadata-0").glob("*.checkpoint"))


def test_a_new_cluster_has_features_and_a_broker(tmp_path: Path) -> None:
    image = with_controller(tmp_path, lambda controller: asyncio.sleep(0, controller.image))
    assert image.features == BOOTSTRAP
    assert image.brokers[1].endpoint("PLAINTEXT") == ENDPOINT
    assert image.brokers[1].epoch <= image.offset
    assert image.controller_id == 1


def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    async def first(controller: ControllerService) -> MetadataImage:
        await controller.create_topics([NewTopic("a", 3, configs=(("retention.ms", "5"),)), NewTopic("b")])
        await controller.delete_topics([("b", bytes(16))])
        await controller.allocate_producer_ids()
        return controller.image

    before = with_controller(tmp_path, first)
    after = with_controller(tmp_path, lambda controller: asyncio.sleep(0, controller.image))
    assert set(after.topics) == {"a"}
    assert after.topics["a"].topic_id == before.topics["a"].topic_id
    assert after.topics["a"].partitions == before.topics["a"].partitions
    assert after.topics["a"].config == {"retention.ms": "5"}
    assert after.next_producer_id == 1000
    assert after.brokers[1].epoch > before.brokers[1].epoch
    assert after.epoch > before.epoch


def test_subscribers_hear_before_the_caller(tmp_path: Path) -> None:
    async def use(controller: ControllerService) -> None:
        heard: list[str] = []
        controller.metadata.subscribe(lambda image, delta: heard.extend(t.name for t in delta.topics.created.values()))
        await create(controller, "t")
        assert heard == ["t"]
        assert "t" in controller.image.topics

    with_controller(tmp_path, use)


def test_decisions_come_one_after_the_other(tmp_path: Path) -> None:
    async def use(controller: ControllerService) -> None:
        outcomes = await asyncio.gather(*(controller.create_topics([NewTopic("t")]) for _ in range(20)))
        codes = [outcome.error and outcome.error.code for [outcome] in outcomes]
        assert codes.count(None) == 1
        assert codes.count(ErrorCode.TOPIC_ALREADY_EXISTS) == 19

    with_controller(tmp_path, use)


def test_a_caller_that_goes_away_does_not_tear_a_decision(tmp_path: Path) -> None:
    async def use(controller: ControllerService) -> None:
        task = asyncio.ensure_future(controller.create_topics([NewTopic("t")]))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await create(controller, "u")
        assert set(controller.image.topics) == {"t", "u"}

    with_controller(tmp_path, use)
    assert set(loaded(tmp_path).topics) == {"t", "u"}


def test_a_decide_function_that_fails_changes_nothing(tmp_path: Path) -> None:
    def decide(image: MetadataImage) -> Decision[None]:
        raise BrokerError(ErrorCode.INVALID_REQUEST)

    async def use(controller: ControllerService) -> None:
        offset = controller.image.offset
        with pytest.raises(BrokerError):
            await controller.submit(decide)
        assert controller.image.offset == offset
        await create(controller, "t")

    with_controller(tmp_path, use)


def test_a_snapshot_at_the_stop_when_it_pays(tmp_path: Path) -> None:
    with_controller(tmp_path, lambda controller: create(controller, "small"))
    assert snapshots(tmp_path) == []
    with_controller(tmp_path, lambda controller: create(controller, "large", 100))
    [name] = snapshots(tmp_path)
    image = loaded(tmp_path)
    assert int(name[:20]) == image.next_offset
    assert len(image.topics["large"].partitions) == 100


def test_decisions_go_on_while_a_snapshot_is_written(tmp_path: Path) -> None:
    async def use(controller: ControllerService) -> None:
        await asyncio.gather(*(create(controller, f"t{number}", 50) for number in range(40)))

    with_controller(tmp_path, use, metadata_log_max_record_bytes_between_snapshots=5000)
    assert loaded(tmp_path).partition_count == 2000


def test_a_stopped_controller_decides_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        controller = await started(tmp_path)
        await stop(controller)
        with pytest.raises(BrokerError) as error:
            await controller.create_topics([NewTopic("t")])
        assert error.value.code == ErrorCode.NOT_CONTROLLER
        await stop(controller)

    asyncio.run(run())


def test_ensure_topic_makes_what_is_missing_once(tmp_path: Path) -> None:
    async def use(controller: ControllerService) -> None:
        found = await asyncio.gather(*(controller.ensure_topic("t") for _ in range(5)))
        assert len({topic.topic_id for topic in found}) == 1
        offsets = await controller.ensure_topic("__consumer_offsets")
        assert len(offsets.partitions) == 50
        assert offsets.config["cleanup.policy"] == "compact"
        assert offsets.is_internal
        with pytest.raises(BrokerError) as error:
            await controller.ensure_topic("a b")
        assert error.value.code == ErrorCode.INVALID_TOPIC_EXCEPTION

    with_controller(tmp_path, use)


def test_no_producer_id_is_given_twice(tmp_path: Path) -> None:
    async def use(controller: ControllerService) -> list[int]:
        ids = ProducerIds(controller)
        return await asyncio.gather(*(ids.next_id() for _ in range(1500)))

    first = with_controller(tmp_path, use)
    second = with_controller(tmp_path, use)
    assert sorted(first) == list(range(1500))
    assert sorted(second) == list(range(2000, 3500))


_KILLED = """
import asyncio, sys
from pathlib import Path
from tests.unit.controller.test_quorum_controller import create, started

async def run():
    controller = await started(Path(sys.argv[1]))
    for number in range(1000):
        await create(controller, f"t{number}", 10)
        print(number, flush=True)

asyncio.run(run())
"""


def test_what_was_answered_survives_a_kill(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _KILLED, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
        env=os.environ | {"PYTHONPATH": "src:."},
    )
    assert process.stdout is not None
    with process.stdout:
        answered = 0
        for line in process.stdout:
            answered = int(line) + 1
            if answered == 25:
                process.send_signal(signal.SIGKILL)
        assert process.wait(timeout=20) == -signal.SIGKILL
    image = loaded(tmp_path)
    assert {f"t{number}" for number in range(answered)} <= set(image.topics)
    assert len(image.topics) <= answered + 1
    assert all(len(topic.partitions) == 10 for topic in image.topics.values())
