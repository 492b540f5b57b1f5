"""Frames are cut from the stream the same way however TCP happened to slice it."""

import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.model import limits
from tidelog.net.framing import FrameBuffer, FrameError

FRAME_BYTES_MAX = 4096


def frame(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


def feed_all(buffer: FrameBuffer, chunks: list[bytes]) -> list[bytes]:
    return [data[start:] for chunk in chunks for data, start in buffer.feed(chunk)]


@given(
    contents=st.lists(st.binary(min_size=limits.FRAME_BYTES_MIN, max_size=300), max_size=8),
    cuts=st.lists(st.integers(0, 2500), max_size=12),
)
def test_every_slicing_gives_the_same_frames(contents: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(frame(content) for content in contents)
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    chunks = [stream[a:b] for a, b in pairwise(edges)]
    buffer = FrameBuffer(FRAME_BYTES_MAX)
    assert feed_all(buffer, chunks) == contents
    assert buffer.buffered_bytes == 0


def test_one_byte_at_a_time() -> None:
    buffer = FrameBuffer(FRAME_BYTES_MAX)
    stream = frame(b"12345678") + frame(b"abcdefghij")
    assert feed_all(buffer, [bytes([byte]) for byte in stream]) == [b"12345678", b"abcdefghij"]


def test_a_whole_frame_in_one_chunk_is_not_copied() -> None:
    chunk = frame(b"x" * 100)
    [(data, start)] = FrameBuffer(FRAME_BYTES_MAX).feed(chunk)
    assert data is chunk
    assert start == 4


def test_an_announced_size_costs_nothing_until_bytes_arrive() -> None:
    buffer = FrameBuffer(limits.FRAME_BYTES_MAX)
    assert buffer.feed(struct.pack(">i", limits.FRAME_BYTES_MAX) + b"ten bytes.") == []
    assert buffer.buffered_bytes == 14


@pytest.mark.parametrize("size", [-1, -(2**31), 0, limits.FRAME_BYTES_MIN - 1, FRAME_BYTES_MAX + 1, 2**31 - 1])
@pytest.mark.parametrize("is_split", [False, True])
def test_sizes_outside_the_limits_are_refused(size: int, is_split: bool) -> None:
    announced = struct.pack(">i", size)
    chunks = [announced[:2], announced[2:]] if is_split else [announced]
    with pytest.raises(FrameError, match="announced"):
        feed_all(FrameBuffer(FRAME_BYTES_MAX), chunks)


@pytest.mark.parametrize("size", [limits.FRAME_BYTES_MIN, FRAME_BYTES_MAX])
def test_the_limits_themselves_are_allowed(size: int) -> None:
    assert feed_all(FrameBuffer(FRAME_BYTES_MAX), [frame(b"x" * size)]) == [b"x" * size]
