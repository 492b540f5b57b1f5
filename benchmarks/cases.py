"""The names of all cases, and which of them can be run on their own or without Kafka."""

from __future__ import annotations

from benchmarks.cluster_cases import CLUSTER_CASES, FAILOVER
from benchmarks.echo_case import ECHO
from benchmarks.group_cases import GROUP_CASES, REPLAY
from benchmarks.load_cases import LOAD_CASES
from benchmarks.node_cases import NODES

START = "start"
PARTS = {
    "node": (START, *(case.name for case in LOAD_CASES), ECHO),
    "groups": (REPLAY, *(case.name for case in GROUP_CASES)),
    "cluster": (*(case.name for case in CLUSTER_CASES), FAILOVER, NODES),
}
"""What can be run on its own, and its cases."""
CASE_NAMES = tuple(name for names in PARTS.values() for name in names)
NEED_JAVA = frozenset(case.name for case in (*LOAD_CASES, *CLUSTER_CASES) if case.needs_java)
"""Their load comes from Kafka's own tools, whatever broker it is for."""
REPEATED = tuple(case.name for case in (*LOAD_CASES, *GROUP_CASES) if not case.needs_java)
"""They load a running node and need nothing else: quick enough for many rounds."""
