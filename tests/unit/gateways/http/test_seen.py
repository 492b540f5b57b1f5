"""Tokens of sessions: what was seen comes back, what was not signed does not, and none is larger than a header."""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.gateways.http.seen import BadToken, Seen, SeenPartitions, read_token, read_tokens
from tidelog.model import limits

KEY = bytes(range(32))
OTHER_KEY = bytes(range(1, 33))
KEYS = {3: KEY}
OFFSETS = st.integers(0, 2**63 - 1)


@st.composite
def seen_values(draw: st.DrawFn) -> Seen:
    offset = draw(OFFSETS)
    return Seen(offset, draw(st.integers(-1, 2**31 - 1)), draw(st.integers(0, offset)))


ENTRIES = st.lists(st.tuples(st.binary(min_size=16, max_size=16), st.integers(0, 2**31 - 1), seen_values()))


def topic(number: int) -> bytes:
    return number.to_bytes(16, "big")


@given(ENTRIES, st.integers(-1, 2**62), st.booleans())
def test_what_has_room_comes_back(entries: list[tuple[bytes, int, Seen]], metadata_offset: int, is_full: bool) -> None:
    seen = SeenPartitions(metadata_offset, is_full=is_full)
    for entry in entries:
        seen.note(*entry)
    count = len(list(seen))
    token = seen.sign(3, KEY)
    assert len(token) <= limits.HTTP_SESSION_TOKEN_BYTES_MAX
    assert read_token(token, KEYS) == seen
    assert len(list(seen)) == count or seen.is_full


@given(st.text(max_size=300) | st.binary(max_size=300).map(lambda raw: urlsafe_b64encode(raw).rstrip(b"=").decode()))
def test_any_text_is_refused(text: str) -> None:
    with pytest.raises(BadToken):
        read_token(text, KEYS)


@given(st.binary(max_size=200))
def test_any_signed_bytes_are_a_token_or_refused(body: bytes) -> None:
    """As of a later version of this program."""
    signed = b"\x01\x03" + body
    raw = signed + hmac.digest(KEY, signed, "sha256")
    token = urlsafe_b64encode(raw).rstrip(b"=").decode()
    try:
        seen = read_token(token, KEYS)
    except BadToken:
        return
    assert all(0 <= each.stable_offset <= each.offset for _, _, each in seen)


def token_of_one() -> str:
    seen = SeenPartitions(7)
    seen.note(topic(1), 0, Seen(43, 3))
    return seen.sign(3, KEY)


def test_every_bit_counts() -> None:
    raw = urlsafe_b64decode(token_of_one() + "==")
    for position in range(len(raw)):
        for bit in range(8):
            changed = bytearray(raw)
            changed[position] ^= 1 << bit
            with pytest.raises(BadToken):
                read_token(urlsafe_b64encode(changed).rstrip(b"=").decode(), KEYS)


def test_every_length_counts() -> None:
    token = token_of_one()
    for size in range(len(token)):
        with pytest.raises(BadToken):
            read_token(token[:size], KEYS)
    for more in ("A", "=", "\n", ".", "é"):
        with pytest.raises(BadToken):
            read_token(token + more, KEYS)


def test_a_token_of_another_cluster_is_refused() -> None:
    with pytest.raises(BadToken, match="signature is wrong"):
        read_token(token_of_one(), {3: OTHER_KEY})
    with pytest.raises(BadToken, match="a key that this cluster does not have"):
        read_token(token_of_one(), {4: KEY})
    with pytest.raises(BadToken, match="a key that this cluster does not have"):
        read_token(token_of_one(), {})


def test_a_token_of_an_older_key_holds() -> None:
    assert read_token(token_of_one(), {3: KEY, 4: OTHER_KEY}).find(topic(1), 0) == Seen(43, 3)


def test_what_is_longer_than_a_token_is_not_looked_at() -> None:
    with pytest.raises(BadToken, match="too long"):
        read_token("A" * (limits.HTTP_SESSION_TOKEN_BYTES_MAX + 1), KEYS)


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (Seen(5, 1), Seen(7, 2), Seen(7, 2)),
        (Seen(7, 2), Seen(5, 1), Seen(7, 2)),
        (Seen(7, 2), Seen(7, 3), Seen(7, 2)),
        (Seen(5, 1, 4), Seen(7, 2), Seen(7, 2, 4)),
        (Seen(7, 2), Seen(5, 1, 5), Seen(7, 2, 5)),
    ],
)
def test_two_things_that_were_seen(one: Seen, other: Seen, both: Seen) -> None:
    seen = SeenPartitions()
    seen.note(topic(1), 0, one)
    seen.note(topic(1), 0, other)
    assert seen.find(topic(1), 0) == both


def test_topics_are_told_apart_by_their_ids() -> None:
    seen = SeenPartitions()
    seen.note(topic(1), 0, Seen(5))
    assert seen.find(topic(2), 0) is None
    assert seen.find(topic(1), 1) is None
    seen.forget(topic(1), 0)
    seen.forget(topic(2), 0)
    assert list(seen) == []


@pytest.mark.parametrize("partitions", [1, 2, 500])
def test_what_was_used_last_is_kept(partitions: int) -> None:
    seen = SeenPartitions()
    for number in range(500):
        seen.note(topic(number // partitions), number % partitions, Seen(1_000_000 + number, 7))
    seen.note(topic(0), 0, Seen(9_000_000, 8))
    again = read_token(seen.sign(3, KEY), KEYS)
    assert again == seen
    assert again.is_full
    assert again.find(topic(0), 0) == Seen(9_000_000, 8)
    last = 499
    assert again.find(topic(last // partitions), last % partitions) == Seen(1_000_499, 7)
    assert again.find(topic(3 // partitions), 3 % partitions) is None
    kept = len(list(again))
    assert kept > (110 if partitions < 500 else 400)
    # What is full stays full: nobody knows any more what was left out.
    assert read_token(again.sign(3, KEY), KEYS).is_full


def test_metadata_goes_forward() -> None:
    seen = SeenPartitions(7)
    seen.note_metadata(5)
    assert read_token(seen.sign(3, KEY), KEYS).metadata_offset == 7
    seen.note_metadata(9)
    assert read_token(seen.sign(3, KEY), KEYS).metadata_offset == 9


def test_tokens_of_requests_side_by_side_are_joined() -> None:
    tokens = []
    for number in range(limits.HTTP_SESSION_TOKENS_MAX):
        seen = SeenPartitions(number, is_full=number == 1)
        seen.note(topic(number), 0, Seen(10 + number, 3))
        seen.note(topic(9), 0, Seen(100 - number, number))
        tokens.append(seen.sign(3, KEY))
    joined = read_tokens(", ".join(tokens), KEYS)
    assert joined.is_full
    assert joined.metadata_offset == limits.HTTP_SESSION_TOKENS_MAX - 1
    assert [joined.find(topic(number), 0) for number in (0, 1, 9)] == [Seen(10, 3), Seen(11, 3), Seen(100, 0)]
    assert read_tokens(tokens[0], KEYS) == read_token(tokens[0], KEYS)
    for wrong in (",".join([*tokens, tokens[0]]), f"{tokens[0]},", f"{tokens[0]},A", ","):
        with pytest.raises(BadToken):
            read_tokens(wrong, KEYS)
