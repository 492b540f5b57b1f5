"""`tidelog consume --group`: reads as a member of a consumer group and says when partitions come and go.

An offset is stored only after its record was written to standard output, and committed before partitions are given up
and at the end: what was printed is committed, what was not is read again by the next member.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any

from tidelog.cli.clients import connect_consumer, describe_error, partition_ids
from tidelog.cli.consume import RECORDS_PER_CALL_MAX, WAIT_SECONDS, consumer_settings
from tidelog.cli.errors import CommandError
from tidelog.cli.output import format_count, note
from tidelog.cli.signals import unwind_on_sigterm

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message, TopicPartition

    from tidelog.cli.record_format import Formatter

JOIN_SECONDS_MAX = 60.0
COMMIT_INTERVAL_SECONDS = 1.0


def run_group(args: argparse.Namespace, formatter: Formatter) -> int:
    settings = consumer_settings(args)
    protocol = args.protocol or "classic"
    settings.update({"auto.offset.reset": "earliest", "enable.auto.offset.store": False, "group.protocol": protocol})
    if protocol == "classic":
        settings["partition.assignment.strategy"] = "cooperative-sticky"
        settings["session.timeout.ms"] = 10_000
    unwind_on_sigterm()
    consumer = connect_consumer(args, settings)
    member = GroupMember(args, consumer)
    try:
        partition_ids(consumer, args, args.topic)
        member.read(formatter)
    finally:
        member.commit()
        consumer.close()
    if not args.quiet and sys.stderr.isatty():
        note(f"{format_count(member.count)} records of {args.topic}, committed for group {args.group}")
    return 0


class GroupMember:
    """One member: its partitions, which of them are at their end, and how much was printed."""

    def __init__(self, args: argparse.Namespace, consumer: Consumer) -> None:
        self._args = args
        self._consumer = consumer
        self._owned: set[int] = set()
        self._ended: set[int] = set()
        self._joined = False
        self._committed_at = time.monotonic()
        self._stored = False
        self.count = 0

    @property
    def is_done(self) -> bool:
        if self._args.max is not None and self.count >= self._args.max:
            return True
        # A member without partitions is at the end too: others read them.
        return not self._args.follow and self._joined and self._owned <= self._ended

    def read(self, formatter: Formatter) -> None:
        self._consumer.subscribe([self._args.topic], on_assign=self._take, on_revoke=self._give_up, on_lost=self._lose)
        deadline = time.monotonic() + JOIN_SECONDS_MAX
        while not self.is_done:
            wanted = RECORDS_PER_CALL_MAX
            if self._args.max is not None:
                wanted = min(wanted, self._args.max - self.count)
            messages = self._consumer.consume(wanted, timeout=WAIT_SECONDS)
            self._write(messages, formatter)
            if not self._joined and time.monotonic() > deadline:
                raise CommandError(f"group {self._args.group} gave no assignment within {JOIN_SECONDS_MAX:.0f} s")
            if time.monotonic() - self._committed_at > COMMIT_INTERVAL_SECONDS:
                self.commit()

    def commit(self) -> None:
        """Commits what was stored since the last time."""
        from confluent_kafka import KafkaException

        self._committed_at = time.monotonic()
        if not self._stored:
            return
        self._stored = False
        try:
            self._consumer.commit(asynchronous=False)
        except KafkaException as error:
            raise CommandError(f"cannot commit for group {self._args.group}: {describe_error(error.args[0])}") from None

    def _write(self, messages: list[Message], formatter: Formatter) -> None:
        from confluent_kafka import KafkaError

        printed: list[Message] = []
        lines = []
        for message in messages:
            error = message.error()
            if error is None:
                lines.append(formatter(message))
                printed.append(message)
                self._ended.discard(message.partition() or 0)
            elif error.code() == KafkaError._PARTITION_EOF:
                self._ended.add(message.partition() or 0)
            elif not error.retriable() and error.code() not in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
                raise CommandError(f"{self._args.topic}: {describe_error(error)}")
        if not printed:
            return
        sys.stdout.buffer.write(b"".join(lines))
        sys.stdout.buffer.flush()
        self.count += len(printed)
        self._store(printed)

    def _store(self, printed: list[Message]) -> None:
        from confluent_kafka import TopicPartition

        positions: dict[int, int] = {}
        for message in printed:
            partition = message.partition() or 0
            if partition in self._owned:
                positions[partition] = (message.offset() or 0) + 1
        if positions:
            self._consumer.store_offsets(
                offsets=[TopicPartition(self._args.topic, *position) for position in positions.items()]
            )
            self._stored = True

    def _take(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._joined = True
        self._owned |= {partition.partition for partition in partitions}
        self._say("assigned", partitions)

    def _give_up(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.commit()
        self._forget(partitions)
        self._say("revoked", partitions)

    def _lose(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        # Another member owns them now: a commit would be refused.
        self._stored = False
        self._forget(partitions)
        self._say("lost", partitions)

    def _forget(self, partitions: list[TopicPartition]) -> None:
        gone = {partition.partition for partition in partitions}
        self._owned -= gone
        self._ended -= gone

    def _say(self, what: str, partitions: list[TopicPartition]) -> None:
        if self._args.quiet:
            return
        names = ", ".join(str(partition.partition) for partition in sorted(partitions, key=_partition_number))
        owned = ", ".join(map(str, sorted(self._owned)))
        note(f"group {self._args.group}: {what} {names or 'nothing'}; owns {owned or 'nothing'}")


def _partition_number(partition: TopicPartition) -> Any:
    return partition.partition
