"""Addresses, pairs, and brokers that are not there."""

from __future__ import annotations

import argparse
import socket
import time

import pytest

from tidelog.cli import clients
from tidelog.cli.errors import CommandError, UsageError


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1:9092", ("127.0.0.1", 9092)),
        ("broker", ("broker", 9092)),
        ("[::1]:9095", ("::1", 9095)),
        ("[::1]", ("::1", 9092)),
        ("PLAINTEXT://host:1", ("host", 1)),
    ],
)
def test_addresses(address: str, expected: tuple[str, int]) -> None:
    assert clients.split_address(address) == expected


@pytest.mark.parametrize("address", ["", ":9092", "host:", "host:x", "host:0", "host:65536"])
def test_addresses_that_are_none(address: str) -> None:
    with pytest.raises(UsageError, match="needs HOST:PORT"):
        clients.split_address(address)


def test_pairs() -> None:
    assert clients.parse_pairs(["a=1", "b=x=y", "c="], "--config") == {"a": "1", "b": "x=y", "c": ""}


@pytest.mark.parametrize("text", ["a", "=1", ""])
def test_pairs_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match="--config needs NAME=VALUE"):
        clients.parse_pairs([text], "--config")


def closed_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def test_a_missing_broker_is_found_at_once_and_the_way_out_is_named() -> None:
    port = closed_port()
    started = time.monotonic()
    with pytest.raises(CommandError) as raised:
        clients.check_reachable(f"127.0.0.1:{port}")
    assert time.monotonic() - started < 2
    assert str(raised.value) == (
        f"no broker answers at 127.0.0.1:{port} (connection refused); "
        f"start one with `tidelog serve --listen 127.0.0.1:{port}` or name another with --bootstrap"
    )


def test_one_address_of_several_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        clients.check_reachable(f"127.0.0.1:{closed_port()},127.0.0.1:{server.getsockname()[1]}")


def test_what_listens_but_is_no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "METADATA_SECONDS_MAX", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        args = argparse.Namespace(bootstrap=f"127.0.0.1:{server.getsockname()[1]}", client_settings=[])
        with pytest.raises(CommandError, match="connected, but no Kafka answer"):
            clients.connect_admin(args)


def test_client_settings_of_the_user_win() -> None:
    args = argparse.Namespace(bootstrap="a:1", client_settings=["client.id=mine", "log_level=7"])
    config = clients.client_config(args)
    assert (config["client.id"], config["log_level"], config["bootstrap.servers"]) == ("mine", "7", "a:1")


def test_a_broker_of_a_profile_that_does_not_answer_is_named_with_it() -> None:
    args = argparse.Namespace(bootstrap=f"127.0.0.1:{closed_port()}", profile="prod", client_settings=[])
    with pytest.raises(CommandError) as raised:
        clients.connect_admin(args)
    assert str(raised.value) == (
        f"no broker answers at {args.bootstrap} (connection refused); "
        "the address is from profile prod; name another with --profile or --bootstrap"
    )


def test_broker_errors_lose_their_decoration() -> None:
    from confluent_kafka import KafkaError, KafkaException

    plain = KafkaError(KafkaError.TOPIC_ALREADY_EXISTS, "Topic 'a' already exists.")
    assert clients.describe_error(plain) == "Topic 'a' already exists (TOPIC_ALREADY_EXISTS)"
    named_by_the_library = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, "Gone")
    assert clients.describe_error(named_by_the_library) == "Gone (UNKNOWN_TOPIC_OR_PARTITION)"
    local = KafkaError(KafkaError._MSG_TIMED_OUT)
    assert clients.describe_error(local) == "Message timed out"
    assert clients.explain_kafka_error(KafkaException(local)) == "Message timed out"
    assert clients.explain_kafka_error(ValueError("x")) is None
