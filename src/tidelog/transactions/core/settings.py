"""The settings the transaction core depends on, under Kafka's names with units last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.config.broker import BrokerConfig

IDS_PER_SWEEP_MAX = 1000
"""Ids that are checked for timeouts and expiry before other requests get their turn."""

RECORD_BYTES_WITHOUT_NAMES_MAX = 128
"""What the record of a transactional id takes beside its name and its partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    max_timeout_ms: int = 900_000
    id_expiration_ms: int = 604_800_000
    abort_interval_ms: int = 10_000
    expiry_interval_ms: int = 3_600_000
    verifies_partitions: bool = True

    @classmethod
    def from_config(cls, config: BrokerConfig) -> TransactionSettings:
        return cls(
            max_timeout_ms=config.transaction_max_timeout_ms,
            id_expiration_ms=config.transactional_id_expiration_ms,
            abort_interval_ms=config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
            expiry_interval_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
            verifies_partitions=config.transaction_partition_verification_enable,
        )
