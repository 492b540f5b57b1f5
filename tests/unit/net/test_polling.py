"""When the loop goes on looking for requests, and when it may sleep."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.net.polling import Polling


class Loop:
    """Turns as an event loop would: each takes ten microseconds."""

    def __init__(self, window_us: int) -> None:
        self.now_us = 1_000_000.0
        self._ready: list[Callable[[], None]] = []
        self.polling = Polling(window_us, self._ready.append, lambda: self.now_us / 1e6)

    def run_until_asleep(self) -> int:
        """The number of turns it took; a thousand are taken for ever."""
        turns = 0
        while self._ready and turns < 1000:
            ready, self._ready[:] = list(self._ready), []
            self.now_us += 10
            turns += 1
            for call in ready:
                call()
        return turns

    def read_after(self, pause_us: float) -> None:
        self.now_us += pause_us
        self.polling.note_read()


def test_requests_one_soon_after_the_other_keep_it_awake_for_the_window() -> None:
    loop = Loop(100)
    loop.read_after(0)
    assert loop.run_until_asleep() == 0
    loop.read_after(130)
    assert 10 <= loop.run_until_asleep() <= 12


def test_every_request_begins_the_window_anew() -> None:
    loop = Loop(100)
    loop.read_after(0)
    loop.read_after(50)
    loop.read_after(90)
    assert 10 <= loop.run_until_asleep() <= 12


def test_requests_with_pauses_between_them_let_it_sleep() -> None:
    loop = Loop(100)
    for _ in range(5):
        loop.read_after(1000)
        assert loop.run_until_asleep() == 0
