"""The requests of one connection and their answers: in which order, how many at a time, and what they hold of memory.

Pure: frames go in, and out come the request to start next, replies in the order of their requests (`net/outgoing.py`),
and decisions: leave the socket unread, come back in the next turn. A request starts when every earlier one is answered,
except behind replies that allow overlap (see PendingReply), which is the order Kafka guarantees. A few bytes can ask
for a long answer and one read can hold thousands of requests, so a connection has turns: after so many requests or
bytes of replies these are sent, and others are served before it goes on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from tidelog.model import limits
from tidelog.net.budget import BudgetShare
from tidelog.net.framing import Frame
from tidelog.net.outgoing import Outgoing
from tidelog.net.reply import Buffers, PendingReply


class RequestQueue:
    __slots__ = (
        "_answers",
        "_is_due",
        "_is_in_turn",
        "_is_muted",
        "_outgoing",
        "_queued_frames",
        "_requests_left",
        "_requests_max",
        "_share",
        "_turn_bytes",
        "_waiting_bytes",
        "is_closed",
    )

    def __init__(self, share: BudgetShare, requests_max: int, outgoing: Outgoing) -> None:
        self._share = share
        """Holds the bytes that are read and not yet answered: incomplete, queued and started requests."""
        self._requests_max = requests_max
        self._outgoing = outgoing
        self._queued_frames: deque[Frame] = deque()
        """Whole requests that wait for their turn."""
        self._answers: deque[tuple[PendingReply, int, int]] = deque()
        """Started but unanswered requests, oldest first, each with the bytes it holds of the budget, and those of its
        reply if that was there at once and only waits for its turn."""
        self._waiting_bytes = 0
        """Sum of those replies."""
        self._is_in_turn = False
        """True while a request is started, which may complete an earlier one: what is queued behind it is not started
        inside of that, or it would be answered first."""
        self._requests_left = 0
        """How many may still be started in this turn."""
        self._turn_bytes = 0
        """Bytes of the replies that were put together in this turn."""
        self._is_due = False
        """Whether the connection will come back for the queued requests by itself."""
        self._is_muted = False
        self.is_closed = False

    @property
    def is_empty(self) -> bool:
        """Every request that came is answered."""
        return not self._answers and not self._queued_frames

    # -- requests --------------------------------------------------------------------------------------------------

    def received(self, byte_count: int) -> None:
        """`byte_count` bytes were read, of whole requests or not."""
        self._share.charge(byte_count)

    def add(self, frames: Iterable[Frame]) -> None:
        self._queued_frames.extend(frames)

    def begin_alone(self) -> bool:
        """Begins the turn of a request that came alone. False if it has to be queued."""
        if self._queued_frames or self._answers or self._is_muted or self._outgoing.is_blocked or self.is_closed:
            return False
        self._is_in_turn = True
        self._turn_bytes = 0
        return True

    def begin_turn(self, is_due: bool) -> bool:
        """`is_due`: the connection came back because `end_turn` asked for it. False inside of another turn, which will
        start whatever may be started now."""
        if is_due:
            self._is_due = False
        if self._is_in_turn or self.is_closed:
            return False
        self._is_in_turn = True
        self._turn_bytes = 0
        self._requests_left = limits.REQUESTS_PER_TURN_MAX
        return True

    def next_request(self) -> Frame | None:
        """What is to be started now."""
        queued = self._queued_frames
        if not queued or self._is_muted or self._outgoing.is_blocked:
            return None
        answers = self._answers
        if answers and (not answers[-1][0].overlaps or self._waiting_bytes >= limits.REPLY_BYTES_PER_TURN_MAX):
            return None
        if self._requests_left == 0 or self._turn_bytes >= limits.REPLY_BYTES_PER_TURN_MAX:
            return None
        self._requests_left -= 1
        return queued.popleft()

    def end_turn(self) -> bool:
        """True if the turn was too short for all requests: the connection has to come back, after others."""
        self._is_in_turn = False
        if not self._queued_frames or self._is_due:
            return False
        self._is_due = self._requests_left == 0 or self._turn_bytes >= limits.REPLY_BYTES_PER_TURN_MAX
        return self._is_due

    # -- answers ---------------------------------------------------------------------------------------------------

    def answer(self, reply: bytes | Buffers | None, held_bytes: int) -> None:
        """The request that was started last, which holds so many bytes of the budget, is answered already."""
        answers = self._answers
        if answers:
            parts: Buffers | None = [reply] if isinstance(reply, bytes) else reply
            done = PendingReply(overlaps=True)
            done.complete(parts)
            reply_bytes = _size_of(parts) if parts is not None else 0
            self._waiting_bytes += reply_bytes
            answers.append((done, held_bytes, reply_bytes))
            return
        if isinstance(reply, bytes):
            self._turn_bytes += len(reply)
            self._outgoing.add(reply)
        elif reply is not None:
            self._turn_bytes += self._outgoing.add_parts(reply)
        self._share.release(held_bytes)

    def wait_for(self, reply: PendingReply, held_bytes: int) -> None:
        """The request that was started last is answered later; `collect` is called then."""
        self._answers.append((reply, held_bytes, 0))

    def collect(self) -> bool:
        """Takes the replies that are completed and next in order. True if there were any, so that requests which
        waited for them may start."""
        answers = self._answers
        if not answers or not answers[0][0].is_done:
            return False
        while answers and answers[0][0].is_done:
            oldest, held_bytes, reply_bytes = answers.popleft()
            if oldest.buffers is not None:
                self._turn_bytes += self._outgoing.add_parts(oldest.buffers)
                oldest.buffers = None
            self._waiting_bytes -= reply_bytes
            self._share.release(held_bytes)
        return True

    # -- flow control ----------------------------------------------------------------------------------------------

    def must_pause(self) -> bool:
        """Whether the socket has to be left unread."""
        return (
            self._share.is_spent
            or self._outgoing.is_blocked
            or self._is_muted
            or len(self._answers) + len(self._queued_frames) >= self._requests_max
        )

    def mute(self) -> None:
        """No request is started until `unmute`; those that were started are still answered."""
        self._is_muted = True

    def unmute(self) -> None:
        self._is_muted = False

    def drop_queued(self) -> None:
        """Requests that were not started never will be."""
        self._queued_frames.clear()

    def close(self) -> None:
        """The connection is gone: nothing is owed to it any more."""
        self.is_closed = True
        self._share.close()
        self._queued_frames.clear()
        self._outgoing.clear()
        answers, self._answers = self._answers, deque()
        for reply, _, _ in answers:
            if not reply.is_done and reply.on_abandoned is not None:
                reply.on_abandoned()


def _size_of(parts: Buffers) -> int:
    """Of the parts that are in memory; regions are not, before they are sent."""
    size = 0
    for part in parts:
        if isinstance(part, (bytes, bytearray, memoryview)):
            size += len(part)
    return size
