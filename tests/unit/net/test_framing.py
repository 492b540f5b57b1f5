"""Frames are cut from the stream the same way however TCP happened to slice it."""

import struct
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.model import limits
from tidelog.net.framing import DIRECT_BYTES_MIN, FrameError, FrameReader

FRAME_BYTES_MAX = 4096


def frame(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


def new_reader(frame_bytes_max: int = FRAME_BYTES_MAX) -> FrameReader:
    return FrameReader(memoryview(bytearray(1000)), frame_bytes_max)


def feed_all(reader: FrameReader, chunks: list[bytes]) -> list[bytes]:
    """Gives the reader the chunks as a socket would, never more at once than it has room for."""
    frames: list[bytes] = []
    for chunk in chunks:
        while chunk:
            room = reader.buffer()
            taken = min(len(room), len(chunk))
            room[:taken] = chunk[:taken]
            chunk = chunk[taken:]
            frames += (bytes(data[start:]) for data, start in reader.filled(taken))
    return frames


@given(
    contents=st.lists(st.binary(min_size=limits.FRAME_BYTES_MIN, max_size=300), max_size=8),
    cuts=st.lists(st.integers(0, 2500), max_size=12),
)
def test_every_slicing_gives_the_same_frames(contents: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(frame(content) for content in contents)
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    chunks = [stream[a:b] for a, b in pairwise(edges)]
    reader = new_reader()
    assert feed_all(reader, chunks) == contents
    assert reader.buffered_bytes == 0


def test_one_byte_at_a_time() -> None:
    reader = new_reader()
    stream = frame(b"12345678") + frame(b"abcdefghij")
    assert feed_all(reader, [bytes([byte]) for byte in stream]) == [b"12345678", b"abcdefghij"]


@settings(deadline=None)
@given(
    sizes=st.lists(st.sampled_from([10, DIRECT_BYTES_MIN - 1, DIRECT_BYTES_MIN + 4, 200_000]), max_size=5),
    cut=st.integers(300, 90_000),
)
def test_large_frames_mixed_with_small_ones(sizes: list[int], cut: int) -> None:
    contents = [bytes([number + 1]) * size for number, size in enumerate(sizes)]
    stream = b"".join(map(frame, contents))
    chunks = [stream[at : at + cut] for at in range(0, len(stream), cut)]
    reader = new_reader(1 << 20)
    assert feed_all(reader, chunks) == contents
    assert reader.buffered_bytes == 0


def test_a_large_frame_is_received_in_place() -> None:
    reader = new_reader(1 << 20)
    assert feed_all(reader, [frame(b"x" * 200_000)[:500]]) == []
    held = reader.buffer()
    assert len(held) == 3 * 500, "room for a few times what came, not for what was announced"
    del held
    assert feed_all(reader, [b"x" * 199_504]) == [b"x" * 200_000]


def test_an_announced_size_is_not_counted_as_held() -> None:
    reader = new_reader(limits.FRAME_BYTES_MAX)
    assert feed_all(reader, [struct.pack(">i", limits.FRAME_BYTES_MAX) + b"ten bytes."]) == []
    assert reader.buffered_bytes == 14


@pytest.mark.parametrize("size", [-1, -(2**31), 0, limits.FRAME_BYTES_MIN - 1, FRAME_BYTES_MAX + 1, 2**31 - 1])
@pytest.mark.parametrize("is_split", [False, True])
def test_sizes_outside_the_limits_are_refused(size: int, is_split: bool) -> None:
    announced = struct.pack(">i", size)
    chunks = [announced[:2], announced[2:]] if is_split else [announced]
    with pytest.raises(FrameError, match="announced"):
        feed_all(new_reader(), chunks)


@pytest.mark.parametrize("size", [limits.FRAME_BYTES_MIN, FRAME_BYTES_MAX])
def test_the_limits_themselves_are_allowed(size: int) -> None:
    assert feed_all(new_reader(), [frame(b"x" * size)]) == [b"x" * size]
