"""A few large buffers that frames are received into, one after another.

A fresh buffer for every large frame has to be cleared, comes with new pages from the kernel and is cold in the
processor's caches; that took a fifth of the time of a produce request of 1 MB. There are at most FRAME_PLACES_MAX of
them, however many clients announce large ones; frames that find none free, or are larger, get a buffer of their own.
"""

from __future__ import annotations

from tidelog.model.limits import FRAME_PLACE_BYTES, FRAME_PLACES_MAX


class FramePlaces:
    __slots__ = ("_place_count", "_returned")

    def __init__(self) -> None:
        self._returned: list[bytearray] = []
        """The one returned last is at the end and is taken first: it is still in the caches. It holds a frame until the
        last view of that is gone."""
        self._place_count = 0
        """Lent or returned; 0 <= _place_count <= FRAME_PLACES_MAX."""

    @property
    def lent_count(self) -> int:
        return self._place_count - len(self._returned)

    def take(self, wanted_bytes: int) -> bytearray | None:
        """A place with at least so many bytes, with whatever the frame before left in it; None when there is none."""
        if wanted_bytes > FRAME_PLACE_BYTES:
            return None
        for at in range(len(self._returned) - 1, -1, -1):
            if not _is_looked_into(self._returned[at]):
                return self._returned.pop(at)
        if self._place_count == FRAME_PLACES_MAX:
            return None
        self._place_count += 1
        return bytearray(FRAME_PLACE_BYTES)

    def give_back(self, place: bytearray) -> None:
        """Nothing more is received into it; it is lent again when no view of it is left."""
        self._returned.append(place)


def _is_looked_into(place: bytearray) -> bool:
    """Python refuses to change the size of a buffer while there is a view of it. One byte less and one more moves
    nothing: the memory stays as large as it was."""
    try:
        place.pop()
    except BufferError:
        return True
    place.append(0)
    return False
