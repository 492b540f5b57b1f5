"""A few large buffers that frames are received into, one after another.

A fresh buffer for every large frame has to be cleared, comes with new pages from the kernel and is cold in the
processor's caches; that took a fifth of the time of a produce request of 1 MB. There are at most FRAME_PLACES_MAX of
them, whoever announces what; frames that find none free, or are larger, get a buffer of their own.
"""

from __future__ import annotations

from tidelog.model.limits import FRAME_PLACE_BYTES, FRAME_PLACES_MAX


class FramePlaces:
    __slots__ = ("_free", "_place_count")

    def __init__(self) -> None:
        self._free: list[bytearray] = []
        """The one used last is at the end, and is taken first: it is still in the caches."""
        self._place_count = 0
        """Free or lent; 0 <= _place_count <= FRAME_PLACES_MAX."""

    @property
    def lent_count(self) -> int:
        return self._place_count - len(self._free)

    def take(self, wanted_bytes: int) -> bytearray | None:
        """A place with at least so many bytes, with whatever the frame before left in it; None when there is none."""
        if wanted_bytes > FRAME_PLACE_BYTES:
            return None
        if self._free:
            return self._free.pop()
        if self._place_count == FRAME_PLACES_MAX:
            return None
        self._place_count += 1
        return bytearray(FRAME_PLACE_BYTES)

    def give_back(self, frame: memoryview) -> None:
        """Its place may be lent again, unless somebody still looks into it: then it is theirs, and another one is made
        when it is needed."""
        place = frame.obj
        assert isinstance(place, bytearray), "places are bytearrays"
        try:
            frame.release()
            # Python refuses to change the size of a buffer while there is a view of it; this one keeps its memory.
            place.pop()
        except BufferError:
            self._place_count -= 1
            return
        place.append(0)
        self._free.append(place)
