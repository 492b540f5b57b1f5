"""Which addresses a node asks to be taken in."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from tidelog.config.broker import BrokerConfig
from tidelog.node import joining
from tidelog.node.environment import ENVIRONMENT
from tidelog.node.errors import NodeStartError
from tidelog.raft.core.effects import HardState
from tidelog.raft.quorum_state import write_quorum_state
from tidelog.storage.log_directory_identity import claim_identity

Address = tuple[str, int]


@pytest.mark.parametrize(
    ("own", "bound", "where", "is_itself"),
    [
        (("node.example", 9092), ("10.1.2.3", 9092), ("node.example", 9092), True),
        (("127.0.0.1", 9092), ("127.0.0.1", 9092), ("localhost", 9092), True),
        (("node.example", 9092), ("0.0.0.0", 9092), ("127.0.0.1", 9092), True),
        (("127.0.0.1", 9092), ("127.0.0.1", 9092), ("localhost", 9093), False),
        (("node.example", 9092), ("0.0.0.0", 9092), ("192.0.2.1", 9092), False),
        (("127.0.0.1", 9092), ("127.0.0.1", 9092), ("127.0.0.2", 9092), False),
    ],
)
def test_a_node_knows_itself_by_any_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: Address, bound: Address, where: Address, is_itself: bool
) -> None:
    monkeypatch.setattr(joining, "JOIN_SECONDS_MAX", 0.0)
    config = BrokerConfig(log_dirs=str(tmp_path))
    with pytest.raises(NodeStartError) as refused:
        asyncio.run(joining.ask_to_join(config, [own], [bound], [where], ENVIRONMENT))
    assert ("cannot join itself" in str(refused.value)) is is_itself


@pytest.mark.parametrize("was_member", [True, False])
def test_a_node_that_was_a_member_goes_on_when_nobody_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, was_member: bool
) -> None:
    """The others may be waiting for its vote before any of them can answer."""
    monkeypatch.setattr(joining, "JOIN_SECONDS_MAX", 0.1)
    monkeypatch.setattr(joining, "ATTEMPT_SECONDS_MAX", 0.1)
    monkeypatch.setattr(joining, "MEMBER_SECONDS_MAX", 0.1)
    if was_member:
        claim_identity(str(tmp_path), 4, "a cluster", None)
        metadata = tmp_path / "__cluster_metadata-0"
        metadata.mkdir()
        write_quorum_state(str(metadata), HardState(3, -1, bytes(16)))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        own, where = ("127.0.0.1", 1), silent.getsockname()[:2]
        asking = joining.ask_to_join(BrokerConfig(log_dirs=str(tmp_path)), [own], [own], [where], ENVIRONMENT)
        if was_member:
            joined = asyncio.run(asking)
            assert (joined.node_id, joined.cluster_id, joined.members) == (4, "a cluster", {})
        else:
            with pytest.raises(NodeStartError, match="could be asked to join"):
                asyncio.run(asking)


def test_the_same_reason_is_logged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A node that waits for its cluster asks several times a second."""
    monkeypatch.setattr(joining, "JOIN_SECONDS_MAX", 0.3)
    monkeypatch.setattr(joining, "RETRY_SECONDS", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as gone:
        where = gone.getsockname()[:2]
    own = ("127.0.0.1", 1)
    with caplog.at_level("INFO", logger="tidelog.node"), pytest.raises(NodeStartError):
        asyncio.run(joining.ask_to_join(BrokerConfig(log_dirs=str(tmp_path)), [own], [own], [where], ENVIRONMENT))
    assert len([record for record in caplog.records if "takes this node in" in record.getMessage()]) == 1
