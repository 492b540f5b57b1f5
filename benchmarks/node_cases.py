"""A node per core: what `tidelog serve --nodes 2` takes in beside `--nodes 1`, many partitions and many small batches.

Requests of one small batch each cost a node the most per byte, so the node is what limits. The clients send bytes that
are ready and count the bytes that come back; they still take their share of the cores, which all of this runs on.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.servers.tidelog_node import Program, start_tidelog
from tests.servers.wire import Connection
from tests.waiting import wait_until

from tidelog.protocol.generated.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.protocol.generated.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tidelog.protocol.generated.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

NODES = "nodes"
CLIENTS = 2
PARTITIONS = 32
REQUESTS = 120_000
"""Of each client."""
LATEST = -1
TIMEOUT_S = 240.0
_NAMES = {1: "one", 2: "two"}

Figures = dict[str, float]


def measure_nodes(directory: Path, share: float, program: Program | None = None) -> Figures:
    """Requests a second with one node and with two, and how much more that is."""
    rates = {count: _measure(directory / f"{count}", count, share, program) for count in _NAMES}
    figures = {f"{NODES}.{name}_rate": rates[count] for count, name in _NAMES.items()}
    return {**figures, f"{NODES}.growth": rates[2] / rates[1]}


def _measure(directory: Path, count: int, share: float, program: Program | None) -> float:
    requests = int(REQUESTS * share)
    with start_tidelog(directory, arguments=("--nodes", str(count)), program=program) as broker:
        wait_until(lambda: len(_describe(broker.port, []).brokers) == count, "every node is known", 30.0, 0.05)
        _create_topic(broker.port, count)
        command = [sys.executable, "-m", "benchmarks.client", "small-batches", "--port", str(broker.port)]
        command += ["--topic", NODES, "--records", str(requests)]
        # Once to warm up: files are made with the first record of a partition.
        sent = _run([*command[:-1], str(requests // 10)])[0]
        more, rate = _run(command)
        _check_count(broker.port, sent + more)
    return rate


def _run(command: list[str]) -> tuple[int, float]:
    """Records written by all clients, and their rates together."""
    clients = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(CLIENTS)]
    answers = []
    for client in clients:
        output, _ = client.communicate(timeout=TIMEOUT_S)
        assert client.returncode == 0, "a client failed; its reason stands above"
        answers.append(json.loads(output))
    return sum(each["records"] for each in answers), sum(each["records"] / each["seconds"] for each in answers)


def _describe(port: int, topics: list[str]) -> MetadataResponse:
    with Connection(port) as connection:
        wanted = [MetadataRequestTopic(name=name) for name in topics]
        response: MetadataResponse = connection.call(MetadataRequest(topics=wanted), 9)
        return response


def _create_topic(port: int, nodes: int) -> None:
    topic = CreatableTopic(name=NODES, num_partitions=PARTITIONS, replication_factor=1)
    with Connection(port) as connection:
        [result] = connection.call(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7).topics
    assert result.error_code == 0, result
    leaders = {partition.leader_id for partition in _describe(port, [NODES]).topics[0].partitions}
    assert len(leaders) == nodes, f"the leaders are on {leaders}"
    wait_until(lambda: None not in _ends(port), "every leader knows that it leads", 30.0, 0.05)


def _check_count(port: int, records: int) -> None:
    """A node that loses records has no figures."""
    found = sum(end or 0 for end in _ends(port))
    assert found == records, f"{found} of {records} records"


def _ends(port: int) -> list[int | None]:
    """The end of every partition as its leader tells it; None while it does not know that it leads."""
    described = _describe(port, [NODES])
    ports = {broker.node_id: broker.port for broker in described.brokers}
    ends: list[int | None] = []
    for partition in described.topics[0].partitions:
        wanted = ListOffsetsPartition(partition_index=partition.partition_index, timestamp=LATEST)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=NODES, partitions=[wanted])])
        with Connection(ports[partition.leader_id]) as connection:
            answer = connection.call(request, 4).topics[0].partitions[0]
        ends.append(answer.offset if answer.error_code == 0 else None)
    return ends
