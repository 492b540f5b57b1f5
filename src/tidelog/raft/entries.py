"""Entries as they stand in the log: one record batch each, the quorum's own as control batches.

The leader of a term writes Kafka's leader-change record. A configuration is a batch of two control records: Kafka's
KRAFT_VOTERS with the voters, and one of our own type with the learners, in the same form; Kafka's readers skip types
they do not know.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidelog.model.errors import BrokerError
from tidelog.model.limits import RAFT_MEMBERS_MAX
from tidelog.protocol.generated.voters_record import Endpoint, Voter, VotersRecord
from tidelog.raft.core.members import Member, MemberSet
from tidelog.raft.core.messages import Entry, EntryKind
from tidelog.records.batch import BatchHeader, InvalidRecord, iterate_whole_headers, verify_crc
from tidelog.records.builder import NewRecord, build_batch
from tidelog.records.control import ControlType, build_leader_change, decode_control_type, encode_control_key
from tidelog.records.record import iterate_records

LEARNERS_CONTROL_TYPE = 1000
"""Kafka counts its types up from 0."""

ENDPOINT_NAME = "TIDELOG"
MEMBERS_VERSION = 0


def encode_entry(entry: Entry, members: MemberSet, leader_id: int, now_ms: int) -> bytes:
    """The batch of a leader's new entry, with offset and term. `members` are those in force."""
    match entry.kind:
        case EntryKind.RECORDS:
            return entry.data
        case EntryKind.LEADER_CHANGE:
            return build_leader_change(
                leader_id=leader_id,
                voters=members.voter_ids,
                granting_voters=members.voter_ids,
                timestamp=now_ms,
                leader_epoch=entry.term,
                base_offset=entry.base_offset,
            )
        case EntryKind.MEMBERS:
            assert entry.members is not None, "a configuration names its members"
            return build_members_batch(entry.members, base_offset=entry.base_offset, term=entry.term, now_ms=now_ms)


def build_members_batch(members: MemberSet, *, base_offset: int, term: int, now_ms: int) -> bytes:
    records = (
        NewRecord(encode_control_key(ControlType.KRAFT_VOTERS), _encode_members(members.voters), now_ms),
        NewRecord(encode_control_key(LEARNERS_CONTROL_TYPE), _encode_members(members.learners), now_ms),
    )
    return build_batch(records, base_offset=base_offset, control=True, partition_leader_epoch=term)


def _encode_members(members: Sequence[Member]) -> bytes:
    voters = [
        Voter(
            voter_id=member.node_id,
            voter_directory_id=member.directory_id,
            endpoints=[Endpoint(name=ENDPOINT_NAME, host=member.host, port=member.port)],
        )
        for member in members
    ]
    return VotersRecord(version=MEMBERS_VERSION, voters=voters).encode(MEMBERS_VERSION)


def decode_entries(data: bytes, *, verify: bool) -> Iterator[Entry]:
    """Whole batches that carry offsets and terms. InvalidRecord or CorruptBatch when they cannot be entries."""
    for position, header in iterate_whole_headers(data):
        if verify and not verify_crc(data, position, header):
            raise InvalidRecord(f"the checksum of the entry at offset {header.base_offset} is wrong")
        yield decode_entry(data[position : position + header.size_in_bytes], header)


def decode_entry(batch: bytes, header: BatchHeader) -> Entry:
    if header.record_count < 1 or header.last_offset_delta != header.record_count - 1 or header.base_offset < 0:
        raise InvalidRecord(f"an entry at offset {header.base_offset} with {header.record_count} records")
    kind, members = EntryKind.RECORDS, None
    if header.is_control:
        members = decode_members(batch)
        kind = EntryKind.LEADER_CHANGE if members is None else EntryKind.MEMBERS
    return Entry(header.base_offset, header.next_offset, header.partition_leader_epoch, kind, batch, members)


def decode_members(batch: bytes) -> MemberSet | None:
    """The configuration in a control batch; None when it holds something else."""
    voters: tuple[Member, ...] | None = None
    learners: tuple[Member, ...] = ()
    for record in iterate_records(batch):
        control_type = decode_control_type(record.key)
        if control_type == ControlType.KRAFT_VOTERS:
            voters = _decode_members(record.value)
        elif control_type == LEARNERS_CONTROL_TYPE:
            learners = _decode_members(record.value)
    if voters is None:
        return None
    ids = [member.node_id for member in (*voters, *learners)]
    if len(set(ids)) != len(ids) or len(ids) > RAFT_MEMBERS_MAX:
        raise InvalidRecord("a configuration that names a member twice, or too many")
    return MemberSet(voters, learners)


def _decode_members(value: bytes | None) -> tuple[Member, ...]:
    try:
        record, _ = VotersRecord.decode(value or b"", 0, MEMBERS_VERSION)
    except BrokerError as error:
        raise InvalidRecord(f"a configuration that cannot be read: {error.message}") from None
    members = []
    for voter in record.voters:
        host, port = (voter.endpoints[0].host, voter.endpoints[0].port) if voter.endpoints else ("", 0)
        members.append(Member(voter.voter_id, voter.voter_directory_id, host, port))
    return tuple(sorted(members, key=lambda member: member.node_id))
