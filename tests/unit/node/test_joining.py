"""Who is asked to take a node in."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tidelog.config.broker import BrokerConfig
from tidelog.node import joining
from tidelog.node.errors import NodeStartError

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
        asyncio.run(joining.ask_to_join(config, [own], [bound], [where]))
    assert ("cannot join itself" in str(refused.value)) is is_itself
