"""How a node comes to its cluster: founds one, is named among the first voters, or asks a member to be taken in."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import socket
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from tidelog.config.listener import parse_address
from tidelog.net.client.errors import RpcError
from tidelog.net.client.pipelined import RpcClient
from tidelog.net.json_body import decode_body, encode_body
from tidelog.node.errors import NodeStartError
from tidelog.protocol.private_apis import JOIN_API_KEY
from tidelog.raft.core.members import Member, MemberSet
from tidelog.raft.quorum_state import QUORUM_STATE_FILE
from tidelog.raft.store import METADATA_PARTITION
from tidelog.storage.log_directory_identity import new_kafka_uuid, read_identity
from tidelog.telemetry.logs import get_logger

if TYPE_CHECKING:
    from tidelog.config.broker import BrokerConfig
    from tidelog.net.network import Network
    from tidelog.node.environment import Environment

logger = get_logger("tidelog.node")

JOIN_SECONDS_MAX = 30.0
ATTEMPT_SECONDS_MAX = 25.0
MEMBER_SECONDS_MAX = 1.0
"""Both for a node that was a member already: it can go on without an answer."""
RETRY_SECONDS = 0.3


class Joined(NamedTuple):
    """What the cluster said to a node it took in; for a member that comes back unheard, what its disk says."""

    node_id: int
    cluster_id: str
    directory_id: str
    members: dict[int, tuple[str, int]]


def parse_voters(config: BrokerConfig) -> MemberSet:
    """`controller.quorum.voters` as members; none when the setting is empty."""
    voters: dict[int, Member] = {}
    for text in config.controller_quorum_voters:
        number, at, address = text.partition("@")
        try:
            if not at or not number.isascii() or not number.isdigit():
                raise ValueError(f"{text!r} is not a voter: id@host:port is expected")
            host, port = parse_address(address)
        except ValueError as error:
            raise NodeStartError(f"controller.quorum.voters: {error}") from None
        if int(number) in voters:
            raise NodeStartError(f"controller.quorum.voters: node {number} is named twice")
        voters[int(number)] = Member(int(number), host=host, port=port)
    return MemberSet(tuple(voters[number] for number in sorted(voters)))


def cluster_id_of(voters: MemberSet, data_directory: str) -> str | None:
    """Voters that start together, each with an empty disk, must agree on the id without having talked: it is made from
    their names. None leaves it to what is in the directory, or to chance for a cluster of one."""
    if not voters or read_identity(data_directory) is not None:
        return None
    names = ",".join(f"{member.node_id}@{member.host}:{member.port}" for member in voters.voters)
    digest = hashlib.sha256(names.encode()).digest()[:16]
    return "T" + base64.urlsafe_b64encode(digest).decode().rstrip("=")[1:]


def contacts(config: BrokerConfig, voters: MemberSet) -> list[tuple[str, int]]:
    """The addresses that a node asks to be taken in: none when it founds a cluster or is one of the first voters."""
    if voters.find(config.node_id) is not None:
        return []
    try:
        given = [parse_address(text) for text in config.controller_quorum_bootstrap_servers]
    except ValueError as error:
        raise NodeStartError(f"controller.quorum.bootstrap.servers: {error}") from None
    return given or [(member.host, member.port) for member in voters.voters]


async def ask_to_join(
    config: BrokerConfig,
    own: Sequence[tuple[str, int]],
    bound: Sequence[tuple[str, int]],
    where: Sequence[tuple[str, int]],
    environment: Environment,
) -> Joined:
    """Asks the contacts in turn until one answers. `own` are the addresses other nodes reach this one by, `bound` those
    that it listens on.

    A node that was a member before goes on when none of them answers: its disk names the others, and when all
    of them start at once, they may be waiting for its own vote.
    """
    for address in where:
        if address in own or await _leads_here(address, bound):
            raise NodeStartError(
                f"node cannot join itself: {address[0]}:{address[1]} is its own address; name another member"
            )
    identity = read_identity(config.data_directory)
    directory_id = new_kafka_uuid(environment.system.random_bytes) if identity is None else identity.directory_id
    node_id = identity.node_id if identity is not None else config.node_id
    is_id_given = identity is not None or "node.id" in config.static_texts
    host, port = own[0]
    body = {
        "cluster_id": config.cluster_id if identity is None else identity.cluster_id,
        "node_id": node_id if is_id_given else None,
        "directory_id": base64.urlsafe_b64decode(directory_id + "==").hex(),
        "is_new": identity is None,
        "host": host,
        "port": port,
    }
    if identity is not None and was_member(config.data_directory):
        try:
            answered = await _ask_in_turn(body, where, MEMBER_SECONDS_MAX, MEMBER_SECONDS_MAX, environment.network)
        except NodeStartError as error:
            logger.info("no member answered; taking part as a member of before", reason=str(error))
            return Joined(identity.node_id, identity.cluster_id, identity.directory_id, {})
    else:
        answered = await _ask_in_turn(body, where, JOIN_SECONDS_MAX, ATTEMPT_SECONDS_MAX, environment.network)
    if "error" in answered:
        raise NodeStartError(f"the cluster does not take this node in: {answered['error']}")
    try:
        members = {int(m["node_id"]): (str(m["host"]), int(m["port"])) for m in answered["members"]}
        return Joined(int(answered["node_id"]), str(answered["cluster_id"]), directory_id, members)
    except (KeyError, ValueError, TypeError) as error:
        raise NodeStartError(f"the answer to the request to join cannot be read: {error}") from None


def was_member(data_directory: str) -> bool:
    """Whether the quorum has spoken to this node: then it was taken in, and its metadata log names the members."""
    return os.path.exists(os.path.join(data_directory, str(METADATA_PARTITION), QUORUM_STATE_FILE))


async def _leads_here(address: tuple[str, int], bound: Sequence[tuple[str, int]]) -> bool:
    """Whether this node itself listens there, by whatever name."""
    hosts = [host for host, port in bound if port == address[1]]
    there = await _resolve(address[0]) if hosts else frozenset()
    for host in hosts:
        if there & await _resolve(host) or (host in ("0.0.0.0", "::") and any(map(_is_local, there))):
            return True
    return False


async def _resolve(host: str) -> frozenset[str]:
    """Nothing for a name that is not known: connecting to it fails with the reason."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None)
    except OSError:
        return frozenset()
    return frozenset(str(address[0]) for *_, address in found)


def _is_local(host: str) -> bool:
    """Whether this machine has the address: one that it does not have cannot be bound."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((host, 0))
        except OSError:
            return False
    return True


async def _ask_in_turn(
    body: dict[str, Any], where: Sequence[tuple[str, int]], patience_s: float, attempt_s: float, network: Network
) -> dict[str, Any]:
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + patience_s
    encoded = encode_body(body)
    assert isinstance(encoded, bytes)
    failure = logged = ""
    while loop.time() < deadline_s:
        for address in where:
            peer = f"{address[0]}:{address[1]}"
            client = RpcClient(peer, partial(_same, address), client_id="tidelog-join", network=network)
            try:
                frame, position = await client.call_encoded(JOIN_API_KEY, 0, encoded, timeout_s=attempt_s)
                answered = decode_body(frame, position)
                if answered.get("code") is None or answered.get("code") not in _RETRIABLE:
                    return answered
                failure = str(answered.get("error"))
            except RpcError as error:
                failure = str(error)
            finally:
                client.close()
        if failure != logged:
            # It is asked for several times a second; the same reason need not be read as often.
            logger.info("no member takes this node in yet", reason=failure)
            logged = failure
        await asyncio.sleep(RETRY_SECONDS)
    raise NodeStartError(f"no member of the cluster could be asked to join: {failure}")


def _same(address: tuple[str, int]) -> tuple[str, int]:
    return address


_RETRIABLE = frozenset({7, 41})
"""REQUEST_TIMED_OUT and NOT_CONTROLLER: the cluster is looking for a leader."""
