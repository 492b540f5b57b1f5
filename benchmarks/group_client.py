"""The processes that put load on a group coordinator; each prints one line of JSON per phase.

A phase begins when the parent sends a line, so that it can read the broker's CPU before and after.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from struct import Struct
from typing import Any

import uvloop
from tests.servers.group_requests import commit_request, wait_until_loaded
from tests.servers.wire import Connection

from benchmarks.group_members import (
    CONNECTED,
    ROUND,
    Barrier,
    Call,
    Driver,
    Progress,
    Request,
    Script,
    Subject,
    classic_member,
    consumer_member,
    framed,
    prepared,
)
from tidelog.protocol.generated.delete_groups import DeleteGroupsRequest
from tidelog.protocol.generated.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.protocol.generated.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tidelog.protocol.generated.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)

MEMBERS = {"classic": classic_member, "consumer": consumer_member}
HEARTBEAT_ROUNDS = 10
COMMIT_CONNECTIONS = 50
COMMIT_PARTITIONS = 10
TIMEOUT_S = 120.0
_OFFSET = Struct(">q")


def tell(**figures: Any) -> None:
    print(json.dumps(figures), flush=True)


def wait_for_parent() -> None:
    assert sys.stdin.readline(), "the parent is gone"


def subject_of(connection: Connection, topic: str) -> Subject:
    [described] = connection.call(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 12).topics
    assert described.error_code == 0, described
    return Subject(topic, described.topic_id, len(described.partitions))


async def join(port: int, protocol: str, groups: list[str], members: int, subject: Subject) -> None:
    """Phases: all members have a stable assignment; heartbeats; all members have left."""
    progress = Progress(len(groups), members, subject.partitions)
    progress.heartbeat_rounds = HEARTBEAT_ROUNDS
    started = 0.0

    def on_barrier(name: str) -> None:
        nonlocal started
        if name == ROUND:
            progress.note_round()
        else:
            tell(phase=name, seconds=time.perf_counter() - started)
            wait_for_parent()
            started = time.perf_counter()

    driver = Driver(on_barrier)
    scripts: list[Script] = [MEMBERS[protocol](group, subject, progress) for group in groups for _ in range(members)]
    await driver.connect(port, scripts)
    await driver.run()


def run_members(args: argparse.Namespace) -> None:
    groups = [f"{args.prefix}-{number}" for number in range(args.groups)]
    with Connection(args.port, timeout_s=TIMEOUT_S) as connection:
        subject = subject_of(connection, args.topic)
        wait_until_loaded(connection, groups)
        uvloop.run(join(args.port, args.protocol, groups, args.members, subject))
        results = connection.call(DeleteGroupsRequest(groups_names=groups), 2).results
        assert all(result.error_code == 0 for result in results), results[0]
    tell(phase="left")


def committer(group: str, topic: str, commits: int) -> Script:
    """Encodes its request once and counts up the offset of partition 0 in it."""
    request = Request(commit_request(group, topic, COMMIT_PARTITIONS, 0), 9)
    partitions = [OffsetCommitResponsePartition(partition_index=n) for n in range(COMMIT_PARTITIONS)]
    usual = OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name=topic, partitions=partitions)])
    frame, read, usual_answer = prepared(request, usual)
    other = framed(Request(commit_request(group, topic, COMMIT_PARTITIONS, -1), 9))
    place = next(at for at, (byte, other_byte) in enumerate(zip(frame, other, strict=True)) if byte != other_byte)
    yield Barrier(CONNECTED)
    for offset in range(1, commits + 1):
        patched = bytearray(frame)
        _OFFSET.pack_into(patched, place, offset)
        answer = yield Call(patched, read, usual_answer)
        assert answer is None, answer


def committed_offsets(connection: Connection, groups: list[str], topic: str) -> list[int]:
    """Of partition 0, of every group; -1 where the coordinator cannot tell (yet)."""
    topics = [OffsetFetchRequestTopics(name=topic, partition_indexes=[0])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics) for group in groups])
    answers = connection.call(request, 9).groups
    return [-1 if answer.error_code else answer.topics[0].partitions[0].committed_offset for answer in answers]


async def commit(args: argparse.Namespace, groups: list[str], commits: int) -> None:
    started = 0.0

    def on_barrier(name: str) -> None:
        nonlocal started
        tell(phase=name)
        wait_for_parent()
        started = time.perf_counter()

    driver = Driver(on_barrier)
    await driver.connect(args.port, [committer(group, args.topic, commits) for group in groups])
    await driver.run()
    tell(phase="committed", seconds=time.perf_counter() - started)


def run_commits(args: argparse.Namespace) -> None:
    groups = [f"{args.prefix}-{number}" for number in range(COMMIT_CONNECTIONS)]
    commits = args.commits // COMMIT_CONNECTIONS
    with Connection(args.port, timeout_s=TIMEOUT_S) as connection:
        wait_until_loaded(connection, groups)
        uvloop.run(commit(args, groups, commits))
        found = committed_offsets(connection, groups, args.topic)
        assert found == [commits] * len(groups), f"committed are {found} of {commits}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.group_client")
    parser.add_argument("kind", choices=("members", "commits"))
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--prefix", required=True, help="of the groups' names")
    parser.add_argument("--protocol", choices=sorted(MEMBERS), default="classic")
    parser.add_argument("--groups", type=int, default=1)
    parser.add_argument("--members", type=int, default=1)
    parser.add_argument("--commits", type=int, default=0)
    args = parser.parse_args()
    (run_members if args.kind == "members" else run_commits)(args)


if __name__ == "__main__":
    main()
