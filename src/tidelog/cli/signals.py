"""Ctrl-C and SIGTERM, for every command but those that run nodes: the command ends within two seconds.

A thread watches for signals beside the main thread, which may be inside a call that does not return. The command is
given a moment to end in good order; then, or at a second signal, the process and what it started are killed. A command
that has Spark ends at once: its state survives a kill at any moment, and an interrupted JVM only has errors to tell.
`end_in_good_order` is for a command that can stop between two steps.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

GRACE_SECONDS = 1.3
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SHOW_CURSOR = "\x1b[?25h"


class _State:
    """What is known about signals in this process."""

    received = 0
    """The first signal, 0 while there was none."""
    is_unwinding = False
    """Whether the main thread was interrupted."""
    stop: Callable[[], None] | None = None
    last_words: Callable[[], None] | None = None


def watch_signals() -> None:
    """From now on SIGINT and SIGTERM end this command; called once, by the main thread."""
    if threading.current_thread() is not threading.main_thread():
        return
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    signal.set_wakeup_fd(writer.detach(), warn_on_full_buffer=False)
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _unwind)
    threading.Thread(target=_watch, args=(reader,), name="signals", daemon=True).start()


def received_signal() -> int:
    """The signal that ends this command, or 0."""
    return _State.received


@contextlib.contextmanager
def end_in_good_order(stop: Callable[[], None], last_words: Callable[[], None] | None = None) -> Iterator[None]:
    """Inside, a signal calls `stop` instead of ending the command where it is.

    `last_words` is called, in another thread, before a command is killed that did not end in time.
    """
    _State.stop, _State.last_words = stop, last_words
    try:
        yield
    finally:
        _State.stop = _State.last_words = None


def interrupt_at_sigint() -> None:
    """From now on Ctrl-C raises KeyboardInterrupt, as Python has it, unless the caller chose to ignore it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def unwind_on_sigterm() -> None:
    """From now on SIGTERM unwinds the command as Ctrl-C does, so that its `finally` blocks run."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _unwind)


def _unwind(number: int, _frame: FrameType | None) -> None:
    first, _State.is_unwinding = not _State.is_unwinding, True
    _State.received = _State.received or number
    if _State.stop is not None:
        _State.stop()
    elif "pyspark" in sys.modules:
        # Not unwound: the bridge to the JVM would print where it was.
        _end_now(number)
    elif first and number == signal.SIGINT:
        raise KeyboardInterrupt
    elif first:
        sys.exit(128 + number)


def _watch(reader: socket.socket) -> None:
    """The thread: sees a signal whatever the main thread is doing."""
    number = _next_signal(reader)
    _State.received = _State.received or number
    if _State.stop is not None:
        _State.stop()
    elif "pyspark" in sys.modules:
        _end_now(number)
    reader.settimeout(GRACE_SECONDS)
    with contextlib.suppress(TimeoutError):
        _next_signal(reader)
    if _State.last_words is not None:
        with contextlib.suppress(Exception):
            _State.last_words()
            sys.stdout.flush()
    _end_now(number)


def _next_signal(reader: socket.socket) -> int:
    while True:
        number = reader.recv(1)[0]
        if number in _SIGNALS:
            return number


def _end_now(number: int) -> None:
    """Ends this process and all that it started, with the exit code of the signal."""
    if sys.stderr.isatty():
        os.write(2, f"\r{_SHOW_CURSOR}".encode())
    for _ in range(3):
        # What is started in the meantime is found by the next look.
        for child in _descendants(os.getpid()):
            with contextlib.suppress(OSError):
                os.kill(child, signal.SIGKILL)
        time.sleep(0.01)
    os._exit(128 + number)


def _descendants(process: int) -> list[int]:
    """Processes that this one started, and those that they started; as far as the system tells (Linux)."""
    children: list[int] = []
    for listing in Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            children += [int(text) for text in listing.read_text().split()]
    return [found for child in children for found in (child, *_descendants(child))]
