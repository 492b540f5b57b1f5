"""Messages of the metadata quorum from whoever is no member: refused, and the node decides on."""

from __future__ import annotations

import random

import pytest
from tests.servers.broker_process import BrokerProcess
from tests.servers.topics import create_topic
from tests.servers.wire import Connection, ConnectionLost

from tidelog.protocol.private_apis import RAFT_API_KEY
from tidelog.raft.codec import Envelope, decode_message, encode_message
from tidelog.raft.core.messages import (
    AppendRequest,
    LogEnd,
    RefusalResponse,
    Request,
    SnapshotId,
    SnapshotRequest,
    TimeoutNowRequest,
    VoteRequest,
)

pytestmark = pytest.mark.usefixtures("bystander", "bounded_memory")

TERM = 2**31 - 1
CLAIMS: list[Request] = [
    AppendRequest(term=TERM, request_id=1, prev_offset=0, prev_term=0, entries=(), commit_offset=2**40, round=0),
    SnapshotRequest(
        term=TERM, request_id=1, snapshot=SnapshotId(2**40, 7), position=0, data=b"not a snapshot", is_last=True
    ),
    VoteRequest(term=TERM, request_id=1, is_pre_vote=False, is_transfer=True, log_end=LogEnd(0, 0)),
    TimeoutNowRequest(term=TERM, request_id=1),
]


def cluster_id(victim: BrokerProcess) -> str:
    text = (victim.data / "meta.properties").read_text()
    return next(line.partition("=")[2] for line in text.splitlines() if line.startswith("cluster.id="))


def ask(victim: BrokerProcess, envelope: Envelope, request: Request) -> object:
    with Connection(victim.port, timeout_s=60) as connection:
        answer = connection.call_raw(RAFT_API_KEY, 0, encode_message(envelope, request))
    return decode_message(answer)[1]


def still_decides(victim: BrokerProcess) -> None:
    with Connection(victim.port, timeout_s=60) as connection:
        create_topic(connection, "decided")


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: type(claim).__name__)
def test_a_stranger_is_refused(victim: BrokerProcess, claim: Request) -> None:
    envelope = Envelope(cluster_id(victim), 77, b"s" * 16, 1, bytes(16))
    assert isinstance(ask(victim, envelope, claim), RefusalResponse)
    still_decides(victim)


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: type(claim).__name__)
def test_another_cluster_and_another_addressee_are_refused(victim: BrokerProcess, claim: Request) -> None:
    foreign = Envelope("another", 1, b"s" * 16, 1, bytes(16))
    assert isinstance(ask(victim, foreign, claim), RefusalResponse)
    astray = Envelope(cluster_id(victim), 1, b"s" * 16, 5, bytes(16))
    assert isinstance(ask(victim, astray, claim), RefusalResponse)
    still_decides(victim)


def test_bytes_that_are_no_message_end_the_connection(victim: BrokerProcess) -> None:
    source = random.Random(3)
    for size in [0, 1, 50, 54, 60, 5000] * 5:
        with Connection(victim.port, timeout_s=60) as connection, pytest.raises(ConnectionLost):
            connection.call_raw(RAFT_API_KEY, 0, source.randbytes(size))
    still_decides(victim)
