"""A transaction is seen in all its partitions or in none, as its producer's answer says."""

from __future__ import annotations

from tests.simulation.coordination_observations import TransactionEnded, TransactionsSeen
from tests.simulation.world import Violation


class TransactionsAreWhole:
    def __init__(self) -> None:
        self._ended: list[TransactionEnded] = []

    def observe(self, observation: object) -> None:
        if isinstance(observation, TransactionEnded):
            self._ended.append(observation)
        elif isinstance(observation, TransactionsSeen):
            for ended in self._ended:
                seen = {value in observation.values[partition] for partition, value in ended.values.items()}
                if len(seen) > 1 or (ended.is_committed is not None and seen != {ended.is_committed}):
                    where = [
                        partition for partition, value in ended.values.items() if value in observation.values[partition]
                    ]
                    raise Violation(f"{ended} is seen in {where or 'no partition'}")
