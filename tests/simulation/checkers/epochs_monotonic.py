"""Epochs only grow: along a log, and on a node from one role to the next."""

from __future__ import annotations

from tests.simulation.replication_observations import LogSeen
from tests.simulation.world import Violation


class EpochsGrow:
    def __init__(self) -> None:
        self._last: dict[tuple[int, int], int] = {}

    def observe(self, observation: object) -> None:
        if isinstance(observation, LogSeen):
            key = (observation.node_id, observation.partition)
            if observation.leader_epoch < self._last.get(key, -1):
                raise Violation(f"node {key[0]} went from leader epoch {self._last[key]} to {observation.leader_epoch}")
            self._last[key] = observation.leader_epoch
            epochs = [epoch for _, epoch, _ in observation.records]
            if epochs != sorted(epochs) or (epochs and epochs[-1] > observation.leader_epoch):
                raise Violation(f"leader epochs in the log of node {key[0]}, partition {key[1]}: {epochs}")
