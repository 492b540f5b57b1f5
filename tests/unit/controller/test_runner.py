"""The controller on a real metadata log: what was answered is there after every kind of end."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tidelog.config.broker import BrokerConfig
from tidelog.controller.core.decision import Decision
from tidelog.controller.core.topics import NewTopic
from tidelog.controller.producer_ids import ProducerIds
from tidelog.controller.runner import Controller
from tidelog.metadata.features import BOOTSTRAP
from tidelog.metadata.image import Endpoint, MetadataImage
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.protocol.generated.no_op_record import NoOpRecord
from tidelog.storage.directory_identity import DirectoryRefused

R = TypeVar("R")

ENDPOINT = Endpoint("PLAINTEXT", "127.0.0.1", 9092)
DIRECTORY_ID = b"d" * 16


def new_controller(path: Path, **settings: Any) -> Controller:
    return Controller(path, BrokerConfig(**settings), cluster_id="test", now_ms=lambda: 1_000)


async def started(path: Path, *, after_crash: bool = False, **settings: Any) -> Controller:
    controller = new_controller(path, **settings)
    await controller.start()
    await controller.register_broker([ENDPOINT], directory_id=DIRECTORY_ID, after_crash=after_crash)
    return controller


def with_controller(path: Path, use: Callable[[Controller], Awaitable[R]], **settings: Any) -> R:
    async def run() -> R:
        controller = await started(path, **settings)
        try:
            return await use(controller)
        finally:
            await controller.stop()

    return asyncio.run(run())


def abandon(controller: Controller) -> None:
    """What a crash leaves: the log as written, no snapshot of the stop."""
    controller._log.log.close(clean=False)


def loaded(path: Path, **settings: Any) -> MetadataImage:
    async def run() -> MetadataImage:
        controller = new_controller(path, **settings)
        await controller.start()
        abandon(controller)
        return controller.image

    return asyncio.run(run())


async def create(controller: Controller, name: str, partitions: int = 1) -> None:
    [outcome] = await controller.create_topics([NewTopic(name, partitions)])
    assert outcome.error is None


def snapshots(path: Path) -> list[str]:
    return sorted(file.name for file in (path / "__cluster_metadata-0").glob("*.checkpoint"))


def test_a_new_cluster_has_features_and_a_broker(tmp_path: Path) -> None:
    image = with_controller(tmp_path, lambda controller: asyncio.sleep(0, controller.image))
    assert image.features == BOOTSTRAP
    assert image.brokers[1].endpoint("PLAINTEXT") == ENDPOINT
    assert image.brokers[1].epoch == image.offset == len(BOOTSTRAP)
    assert image.controller_id == 1


def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    async def first(controller: Controller) -> MetadataImage:
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
    assert after.epoch == before.epoch + 1


def test_a_crash_begins_new_leader_epochs_and_a_clean_stop_does_not(tmp_path: Path) -> None:
    with_controller(tmp_path, lambda controller: create(controller, "t", 3))

    async def epochs(controller: Controller) -> set[int]:
        return {state.leader_epoch for state in controller.image.topics["t"].partitions.values()}

    assert with_controller(tmp_path, epochs) == {0}
    assert with_controller(tmp_path, epochs, after_crash=True) == {1}
    assert with_controller(tmp_path, epochs) == {1}


def test_subscribers_hear_before_the_caller(tmp_path: Path) -> None:
    async def use(controller: Controller) -> None:
        heard: list[str] = []
        controller.metadata.subscribe(lambda image, delta: heard.extend(t.name for t in delta.topics_created))
        await create(controller, "t")
        assert heard == ["t"]
        assert "t" in controller.image.topics

    with_controller(tmp_path, use)


def test_decisions_come_one_after_the_other(tmp_path: Path) -> None:
    async def use(controller: Controller) -> None:
        outcomes = await asyncio.gather(*(controller.create_topics([NewTopic("t")]) for _ in range(20)))
        codes = [outcome.error and outcome.error.code for [outcome] in outcomes]
        assert codes.count(None) == 1
        assert codes.count(ErrorCode.TOPIC_ALREADY_EXISTS) == 19

    with_controller(tmp_path, use)


def test_a_caller_that_goes_away_does_not_tear_a_decision(tmp_path: Path) -> None:
    async def use(controller: Controller) -> None:
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

    async def use(controller: Controller) -> None:
        offset = controller.image.offset
        with pytest.raises(BrokerError):
            await controller.submit(decide)
        assert controller.image.offset == offset
        await create(controller, "t")

    with_controller(tmp_path, use)


def test_a_sync_that_fails_takes_the_decision_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(fd: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def use(controller: Controller) -> None:
        await create(controller, "before")
        offset = controller.image.offset
        with monkeypatch.context() as patch:
            patch.setattr(os, "fdatasync", refuse)
            with pytest.raises(BrokerError) as error:
                await controller.create_topics([NewTopic("lost")])
        assert error.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        assert controller.image.offset == offset
        await create(controller, "after")

    with_controller(tmp_path, use)
    image = loaded(tmp_path)
    assert set(image.topics) == {"before", "after"}


def test_a_torn_batch_is_cut_and_what_was_answered_stays(tmp_path: Path) -> None:
    async def run() -> None:
        controller = await started(tmp_path)
        await create(controller, "kept", 5)
        whole = controller._log.log.active_segment.size
        await create(controller, "torn", 5)
        abandon(controller)
        [log] = (tmp_path / "__cluster_metadata-0").glob("*.log")
        os.truncate(log, whole + 100)

    asyncio.run(run())
    image = loaded(tmp_path)
    assert set(image.topics) == {"kept"}
    with_controller(tmp_path, lambda controller: create(controller, "torn"), after_crash=True)
    assert set(loaded(tmp_path).topics) == {"kept", "torn"}


def test_a_snapshot_at_the_stop_when_it_pays(tmp_path: Path) -> None:
    with_controller(tmp_path, lambda controller: create(controller, "small"))
    assert snapshots(tmp_path) == []
    with_controller(tmp_path, lambda controller: create(controller, "large", 100))
    [name] = snapshots(tmp_path)
    image = loaded(tmp_path)
    assert int(name[:20]) == image.next_offset
    assert len(image.topics["large"].partitions) == 100


def test_snapshots_shorten_the_log_while_it_grows(tmp_path: Path) -> None:
    async def use(controller: Controller) -> None:
        for number in range(40):
            await create(controller, f"t{number}", 20)
            if controller._snapshot_task is not None:
                await controller._snapshot_task
        assert controller._log.log.log_start_offset > 0

    with_controller(tmp_path, use, metadata_log_max_record_bytes_between_snapshots=5000)
    assert len(snapshots(tmp_path)) == 2
    image = loaded(tmp_path)
    assert image.partition_count == 800
    with_controller(tmp_path, lambda controller: create(controller, "last"))
    assert loaded(tmp_path).partition_count == 801


def test_decisions_go_on_while_a_snapshot_is_written(tmp_path: Path) -> None:
    async def use(controller: Controller) -> None:
        await asyncio.gather(*(create(controller, f"t{number}", 50) for number in range(40)))

    with_controller(tmp_path, use, metadata_log_max_record_bytes_between_snapshots=5000)
    assert loaded(tmp_path).partition_count == 2000


def grown(path: Path) -> None:
    for number in range(2):
        with_controller(path, lambda controller, n=number: create(controller, f"t{n}", 100))  # type: ignore[misc]
    assert len(snapshots(path)) == 2


def test_a_damaged_snapshot_is_done_without(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    grown(tmp_path)
    newest = tmp_path / "__cluster_metadata-0" / snapshots(tmp_path)[-1]
    newest.write_bytes(newest.read_bytes()[:-10])
    assert set(loaded(tmp_path).topics) == {"t0", "t1"}
    assert "damaged" in caplog.text


def test_without_any_readable_snapshot_the_start_is_refused_in_one_line(tmp_path: Path) -> None:
    async def use(controller: Controller) -> None:
        for number in range(20):
            await create(controller, f"t{number}", 20)
            if controller._snapshot_task is not None:
                await controller._snapshot_task

    with_controller(tmp_path, use, metadata_log_max_record_bytes_between_snapshots=5000)
    for name in snapshots(tmp_path):
        (tmp_path / "__cluster_metadata-0" / name).write_bytes(b"garbage")
    with pytest.raises(DirectoryRefused) as error:
        loaded(tmp_path)
    assert "\n" not in str(error.value)
    assert "are in no readable snapshot" in str(error.value)


def test_a_record_of_the_future_is_refused_in_one_line(tmp_path: Path) -> None:
    async def run() -> None:
        controller = await started(tmp_path)
        log = controller._log
        encode = NoOpRecord.encode_into
        try:
            NoOpRecord.encode_into = lambda self, out, version: out.__setitem__(1, 127)  # type: ignore[assignment]
            log.append([NoOpRecord()], 1)
        finally:
            NoOpRecord.encode_into = encode  # type: ignore[method-assign]
        abandon(controller)

    asyncio.run(run())
    with pytest.raises(DirectoryRefused, match="metadata record of unknown type 127"):
        loaded(tmp_path)


def test_a_stopped_controller_decides_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        controller = await started(tmp_path)
        await controller.stop()
        with pytest.raises(BrokerError) as error:
            await controller.create_topics([NewTopic("t")])
        assert error.value.code == ErrorCode.NOT_CONTROLLER
        await controller.stop()
        await new_controller(tmp_path).stop()

    asyncio.run(run())


def test_ensure_topic_makes_what_is_missing_once(tmp_path: Path) -> None:
    async def use(controller: Controller) -> None:
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
    async def use(controller: Controller) -> list[int]:
        ids = ProducerIds(controller)
        return await asyncio.gather(*(ids.next_id() for _ in range(1500)))

    first = with_controller(tmp_path, use)
    second = with_controller(tmp_path, use)
    assert sorted(first) == list(range(1500))
    assert sorted(second) == list(range(2000, 3500))


_KILLED = """
import asyncio, sys
from pathlib import Path
from tests.unit.controller.test_runner import create, started

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
