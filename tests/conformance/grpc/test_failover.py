"""Streams and calls through a node that is left when the leader is killed."""

from __future__ import annotations

import signal
from pathlib import Path
from threading import Thread
from typing import Any

import grpc
from tests.conformance.grpc.door_cluster import NODES, Nodes, three_nodes
from tests.conformance.grpc.stubs import Client
from tests.waiting import wait_until

from tidelog.gateways.grpc.generated import mq_pb2 as mq


def test_streams_outlive_the_leader(tmp_path: Path) -> None:
    with three_nodes(tmp_path) as nodes:
        outlive_the_leader(nodes)


def outlive_the_leader(nodes: Nodes) -> None:
    nodes.create("lasting", 1, 3)
    killed = nodes.leader("lasting", 1)
    survivor = nodes.clients[next(node_id for node_id in NODES if node_id != killed)]
    found: dict[str, list[bytes]] = {"": [], "group": []}

    def follow(group: str, stream: Any) -> None:
        try:
            for message in stream:
                found[group].append(message.value)
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.CANCELLED:
                found[group].append(repr(error).encode())

    streams = []
    for group in found:
        asked = mq.SubscribeRequest(topic="lasting", group_id=group, start_offset=-2)
        streams.append(survivor.mq.Subscribe(asked, 120))
        Thread(target=follow, args=(group, streams[-1]), daemon=True).start()
    sent = [b"%d" % n for n in range(20)]
    for value in sent[:10]:
        survivor.mq.Produce(mq.ProduceRequest(topic="lasting", value=value, acks=-1))
    wait_until(lambda: all(values == sent[:10] for values in found.values()), lambda: str(found), 20)
    nodes.processes[killed].end(signal.SIGKILL)
    for value in sent[10:]:
        produce_at_last(survivor, value)
    # The answer of an attempt may be lost with the leader: then its record is there twice.
    wait_until(lambda: all(set(values) == set(sent) for values in found.values()), lambda: str(found), 30)
    for stream in streams:
        stream.cancel()


def produce_at_last(client: Client, value: bytes) -> None:
    def attempt() -> bool:
        try:
            client.mq.Produce(mq.ProduceRequest(topic="lasting", value=value, acks=-1), 15)
        except grpc.RpcError as error:
            if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                raise
            return False
        return True

    wait_until(attempt, "a record is appended", 40)
