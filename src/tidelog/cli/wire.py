"""Bare requests to brokers, for what confluent-kafka has no call for. One request at a time, no encryption."""

from __future__ import annotations

import argparse
import json
from typing import Any, Self

from tidelog.cli.clients import ANSWER_SECONDS_MAX, CLIENT_ID, parse_pairs, require_reachable, split_address
from tidelog.cli.errors import CommandError
from tidelog.net.client.blocking import BlockingClient
from tidelog.net.client.errors import RpcError
from tidelog.protocol.message import Message


class BrokerConnection:
    """A connection to one broker; raises CommandError when it fails."""

    def __init__(self, host: str, port: int) -> None:
        try:
            self._client = BlockingClient(
                host, port, client_id=CLIENT_ID, timeout_s=ANSWER_SECONDS_MAX, software_name="tidelog"
            )
        except RpcError as error:
            raise CommandError(str(error)) from None

    def call(self, request: Message, version: int) -> Any:
        try:
            return self._client.call(request, version)
        except RpcError as error:
            raise CommandError(str(error)) from None

    def call_json(self, api_key: int, body: dict[str, Any]) -> dict[str, Any]:
        """A request of one of Tidelog's own APIs."""
        try:
            answer, position = self._client.call_encoded(api_key, 0, json.dumps(body).encode())
        except RpcError as error:
            raise CommandError(str(error)) from None
        return dict(json.loads(bytes(answer[position:])))

    def close(self) -> None:
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def connect_broker(args: argparse.Namespace) -> BrokerConnection:
    """A connection to the first broker of --bootstrap that listens."""
    settings = parse_pairs(args.client_settings, "-X")
    if settings.get("security.protocol", "plaintext").lower() != "plaintext":
        raise CommandError("this command talks to plaintext listeners only")
    require_reachable(args)
    failure = CommandError("no broker named")
    for address in args.bootstrap.split(","):
        try:
            return BrokerConnection(*split_address(address.strip()))
        except CommandError as error:
            failure = error
    raise failure
