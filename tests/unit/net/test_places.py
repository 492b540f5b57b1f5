"""Places for large frames: used again, few, and never while a view of one is left."""

import struct

from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.model.limits import FRAME_PLACE_BYTES, FRAME_PLACES_MAX
from tidelog.net.framing import DIRECT_BYTES_MIN, FIRST_LOOK_BYTES, FrameReader
from tidelog.net.places import FramePlaces

LARGE = 300_000


def frame(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


def new_reader(places: FramePlaces) -> FrameReader:
    return FrameReader(memoryview(bytearray(1000)), 1 << 24, places=places)


def feed(reader: FrameReader, data: bytes) -> list[memoryview | bytes | bytearray]:
    """As a socket would; the frames' buffers."""
    found = []
    while data:
        room = reader.buffer()
        taken = min(len(room), len(data))
        room[:taken] = data[:taken]
        del room
        data = data[taken:]
        found += [buffer for buffer, _ in reader.filled(taken)]
    return found


def receive(reader: FrameReader, content: bytes) -> memoryview:
    [received] = feed(reader, frame(content))
    assert isinstance(received, memoryview)
    assert received == frame(content)
    return received


def test_one_place_serves_frame_after_frame() -> None:
    places = FramePlaces()
    reader = new_reader(places)
    place = receive(reader, b"a" * LARGE).obj
    for content in (b"b" * LARGE, b"c" * (LARGE // 2), b"d" * (FRAME_PLACE_BYTES - 4)):
        again = receive(reader, content)
        assert again.obj is place
        assert len(again) == 4 + len(content), "it ends where the frame ends"
        del again
    assert places.lent_count == 0
    assert len(place) == FRAME_PLACE_BYTES


def test_behind_a_large_frame_only_the_next_size_is_looked_at_first() -> None:
    reader = new_reader(FramePlaces())
    receive(reader, b"a" * LARGE)
    assert len(reader.buffer()) == FIRST_LOOK_BYTES
    assert feed(reader, frame(b"small frame")) == [frame(b"small frame")], "its content starts behind its size"
    assert len(reader.buffer()) == 1000, "small frames are read many at a time again"


def test_a_place_somebody_looks_into_is_not_lent_again() -> None:
    places = FramePlaces()
    reader = new_reader(places)
    first = receive(reader, b"a" * LARGE)
    place = first.obj
    kept = first[4:10]
    del first
    second = receive(reader, b"b" * LARGE)
    assert second.obj is not place
    assert bytes(kept) == b"aaaaaa"
    kept.release()
    assert receive(reader, b"c" * LARGE).obj is place, "when nobody does any more, it is"


def test_views_that_are_kept_use_up_the_places_and_no_more() -> None:
    reader = new_reader(FramePlaces())
    kept = []
    for number in range(FRAME_PLACES_MAX):
        received = receive(reader, bytes([number]) * LARGE)
        kept.append(received[4:])
    [own] = feed(reader, frame(b"x" * LARGE))
    assert isinstance(own, bytearray)
    assert [view[0] for view in kept] == list(range(FRAME_PLACES_MAX))


def test_there_are_only_so_many() -> None:
    places = FramePlaces()
    readers = [new_reader(places) for _ in range(FRAME_PLACES_MAX + 1)]
    half = frame(b"x" * LARGE)[: LARGE // 2]
    for reader in readers:
        assert feed(reader, half) == []
    assert places.lent_count == FRAME_PLACES_MAX
    [own] = feed(readers[-1], frame(b"x" * LARGE)[LARGE // 2 :])
    assert own == frame(b"x" * LARGE)
    assert isinstance(own, bytearray), "a buffer of its own, that grew with what came"
    for reader in readers:
        reader.close()
    assert places.lent_count == 0


def test_a_frame_larger_than_a_place_gets_a_buffer_of_its_own() -> None:
    places = FramePlaces()
    [received] = feed(new_reader(places), frame(b"x" * FRAME_PLACE_BYTES))
    assert isinstance(received, bytearray)
    assert places.lent_count == 0


@settings(deadline=None, max_examples=50)
@given(
    sizes=st.lists(
        st.sampled_from([8, FIRST_LOOK_BYTES - 4, FIRST_LOOK_BYTES, 5_000, DIRECT_BYTES_MIN + 600, 200_000]), max_size=6
    ),
    cut=st.integers(200, 90_000),
)
def test_frames_of_all_sizes_in_any_slicing(sizes: list[int], cut: int) -> None:
    places = FramePlaces()
    reader = new_reader(places)
    contents = [bytes([number + 1]) * size for number, size in enumerate(sizes)]
    stream = b"".join(map(frame, contents))
    received = []
    for at in range(0, len(stream), cut):
        for buffer in feed(reader, stream[at : at + cut]):
            received.append(bytes(buffer))
    assert [data[-len(content) :] for data, content in zip(received, contents, strict=True)] == contents
    assert reader.buffered_bytes == 0
    assert places.lent_count == 0
