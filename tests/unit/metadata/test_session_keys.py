"""The keys of HTTP sessions: replayed, kept in snapshots, and shown by nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.metadata.images import cluster, replayed

from tidelog.cli.internal_records import decode_metadata_log_record
from tidelog.metadata import table
from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.framing import decode_metadata_record, encode_metadata_record
from tidelog.metadata.image import MetadataImage
from tidelog.metadata.session_keys import SessionKeysDelta, SessionKeysImage
from tidelog.model.errors import BrokerError
from tidelog.protocol.private_records import SessionKeyRecord
from tidelog.records.record import Record

KEY = bytes(range(100, 132))


def test_the_newest_key_signs_and_older_ones_stay_known() -> None:
    before = cluster()
    assert before.part(SessionKeysImage).newest is None
    image, delta = replayed(before, [SessionKeyRecord(key_id=1, key=b"a"), SessionKeyRecord(key_id=2, key=b"b")])
    keys = image.part(SessionKeysImage)
    assert keys.newest == (2, b"b")
    assert dict(keys.by_id) == {1: b"a", 2: b"b"}
    assert delta.part(SessionKeysDelta).changed == {1, 2}
    assert before.part(SessionKeysImage).newest is None

    again = replayed(MetadataImage(), image.records())[0]
    assert again.part(SessionKeysImage) == keys
    assert MetadataDelta.between(before, image).part(SessionKeysDelta).changed == {1, 2}
    assert MetadataDelta.between(again, image).part(SessionKeysDelta).is_empty


def test_a_key_waits_for_its_level() -> None:
    assert table.LEVELS[SessionKeyRecord] == 2


def test_a_key_survives_its_frame() -> None:
    record = SessionKeyRecord(key_id=7, key=KEY)
    assert decode_metadata_record(encode_metadata_record(record)) == record


@given(st.binary(max_size=80))
def test_any_bytes_are_a_record_or_refused(data: bytes) -> None:
    try:
        record, position = SessionKeyRecord.decode(data, 0, 0)
    except BrokerError:
        return
    assert len(record.key) <= position <= len(data)


@pytest.mark.parametrize("size", range(1, 37))
def test_a_record_that_is_cut_short_is_refused(size: int) -> None:
    encoded = SessionKeyRecord(key_id=7, key=KEY).encode(0)
    with pytest.raises(BrokerError):
        SessionKeyRecord.decode(encoded[: len(encoded) - size], 0, 0)


def test_nothing_shows_a_key() -> None:
    record = SessionKeyRecord(key_id=7, key=KEY)
    image = SessionKeysImage({7: KEY})
    log_record = Record(0, 0, None, encode_metadata_record(record), ())
    decoded = decode_metadata_log_record(log_record)
    assert decoded is not None
    document = decoded.document()
    assert document["value"] == {"key": "(32 bytes, not shown)", "key_id": 7}
    for shown in (repr(record), repr(image), repr(document)):
        for secret in (KEY.decode("latin-1"), repr(KEY)[2:-1], KEY.hex()):
            assert secret not in shown
