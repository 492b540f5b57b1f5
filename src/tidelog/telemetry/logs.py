"""Structured logs over the standard library: an event in fixed words, and its facts as key=value.

    logger = get_logger("tidelog.net")
    logger.info("connection closed", peer=host, reason="idle")

Rules: the event never contains data, the fields do; what came from a peer is escaped and cut before it is printed;
lines a peer can cause at will go through `warning_limited` (`line_limits.py`). Handlers are the application's business:
a node that is embedded adds none, `configure` is for `tidelog serve`. Other formatters see `event key=value` as the
message.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from tidelog.telemetry.line_limits import HeldBack, LineLimiter

VALUE_LENGTH_MAX = 500

_RESET = "\x1b[0m"
_COLOURS = {
    logging.DEBUG: "\x1b[2m",
    logging.WARNING: "\x1b[33m",
    logging.ERROR: "\x1b[31m",
    logging.CRITICAL: "\x1b[1;31m",
}


class LogEvent:
    """The message object of a record: keeps event and fields apart for formatters that want them so."""

    __slots__ = ("event", "fields")

    def __init__(self, event: str, fields: dict[str, Any]) -> None:
        self.event = event
        self.fields = fields

    def __str__(self) -> str:
        if not self.fields:
            return self.event
        return f"{self.event} {format_fields(self.fields)}"


class StructuredLogger:
    """A logger of the standard library with keyword fields; costs well under a microsecond when filtered."""

    __slots__ = ("_is_enabled_for", "_logger")

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._is_enabled_for = logger.isEnabledFor

    def is_enabled_for(self, level: int) -> bool:
        return self._is_enabled_for(level)

    def debug(self, event: str, /, **fields: Any) -> None:
        if self._is_enabled_for(logging.DEBUG):
            self._logger.log(logging.DEBUG, LogEvent(event, fields), stacklevel=2)

    def info(self, event: str, /, **fields: Any) -> None:
        if self._is_enabled_for(logging.INFO):
            self._logger.log(logging.INFO, LogEvent(event, fields), stacklevel=2)

    def warning(self, event: str, /, **fields: Any) -> None:
        if self._is_enabled_for(logging.WARNING):
            self._logger.log(logging.WARNING, LogEvent(event, fields), stacklevel=2)

    def error(self, event: str, /, **fields: Any) -> None:
        if self._is_enabled_for(logging.ERROR):
            self._logger.log(logging.ERROR, LogEvent(event, fields), stacklevel=2)

    def exception(self, event: str, /, **fields: Any) -> None:
        """An error with the traceback of the exception being handled: for faults of ours, never of a peer."""
        self._logger.log(logging.ERROR, LogEvent(event, fields), exc_info=True, stacklevel=2)

    def warning_limited(self, event: str, /, *, limit_by: tuple[str, ...] = (), **fields: Any) -> None:
        """A warning that is printed a few times a minute, and then counted in one line.

        `limit_by` names the fields that tell sources apart, for example ("reason", "peer"): each has its own count.
        """
        self._log_limited(logging.WARNING, event, limit_by, fields, is_exception=False)

    def info_limited(self, event: str, /, *, limit_by: tuple[str, ...] = (), **fields: Any) -> None:
        """As `warning_limited`, for what is no fault."""
        self._log_limited(logging.INFO, event, limit_by, fields, is_exception=False)

    def exception_limited(self, event: str, /, *, limit_by: tuple[str, ...] = (), **fields: Any) -> None:
        """As `exception`, where a peer that has found a fault of ours could repeat it at will."""
        self._log_limited(logging.ERROR, event, limit_by, fields, is_exception=True)

    def _log_limited(
        self, level: int, event: str, limit_by: tuple[str, ...], fields: dict[str, Any], *, is_exception: bool
    ) -> None:
        if not self._is_enabled_for(level):
            return
        key = (event, self._logger.name, *(f"{name}={fields[name]}" for name in limit_by))
        is_admitted, before = limited_lines.admit(key)
        if before is not None:
            _report(before)
        if is_admitted:
            self._logger.log(level, LogEvent(event, fields), exc_info=is_exception, stacklevel=3)


class LimitedLines:
    """The limiter of this process, for nodes in any number of threads."""

    def __init__(self) -> None:
        self._limiter = LineLimiter()
        self._lock = threading.Lock()
        self._is_lifted = False

    @contextmanager
    def lifted(self) -> Iterator[None]:
        """Every line is printed: for simulations, which have their own time and show what happened to the last line."""
        self._is_lifted = True
        try:
            yield
        finally:
            self._is_lifted = False

    def admit(self, key: tuple[str, ...]) -> tuple[bool, HeldBack | None]:
        if self._is_lifted:
            return True, None
        with self._lock:
            return self._limiter.admit(key, time.monotonic())

    def take_counts(self) -> list[HeldBack]:
        if not self._limiter.has_counts:
            return []
        with self._lock:
            return self._limiter.take_counts(time.monotonic())


limited_lines = LimitedLines()


def report_held_back() -> None:
    """Prints how many lines were counted instead of printed, where a minute is over: nodes call it once a second."""
    for held_back in limited_lines.take_counts():
        _report(held_back)


def _report(held_back: HeldBack) -> None:
    """Straight to the logger: what says that lines were left out is not left out itself."""
    event, *rest = held_back.key
    name, *sources = rest if rest else ("tidelog.telemetry",)
    fields: dict[str, Any] = dict(source.split("=", 1) for source in sources)
    if held_back.is_shared:
        fields["sources"] = "many"
    elif not name.startswith("tidelog"):
        fields["library"], name = name, "tidelog.telemetry"
    fields["not_logged"] = held_back.lines
    fields["seconds"] = round(held_back.seconds)
    logging.getLogger(name).warning(LogEvent(event, fields))


def get_logger(name: str) -> StructuredLogger:
    """The structured logger over `logging.getLogger(name)`; names start with `tidelog.`."""
    return StructuredLogger(logging.getLogger(name))


def configure(
    *, log_format: str = "human", level: str | int = "INFO", stream: IO[str] | None = None
) -> logging.Handler:
    """Sends everything below `tidelog` to one stream (standard error) and returns the handler.

    Warnings of libraries, and Python's own, go there too, in the same form and a few a minute: some of them are about
    what peers send. Calling it again replaces the handlers of the call before. Raises ValueError for an unknown format
    or level.
    """
    target = stream if stream is not None else sys.stderr
    formatter: logging.Formatter
    if log_format == "human":
        formatter = HumanFormatter(coloured=target.isatty())
    elif log_format == "json":
        formatter = JsonFormatter()
    else:
        raise ValueError(f"log format {log_format!r} is neither human nor json")
    own = logging.getLogger("tidelog")
    own.setLevel(level.upper() if isinstance(level, str) else level)
    handler = _replace_handler(own, target, formatter)
    own.propagate = False
    of_libraries = _replace_handler(logging.getLogger(), target, formatter)
    of_libraries.setLevel(logging.WARNING)
    of_libraries.addFilter(_admit_line_of_library)
    logging.captureWarnings(True)
    return handler


def _replace_handler(logger: logging.Logger, target: IO[str], formatter: logging.Formatter) -> logging.Handler:
    for old in [handler for handler in logger.handlers if handler.get_name() == "tidelog"]:
        logger.removeHandler(old)
    handler = logging.StreamHandler(target)
    handler.set_name("tidelog")
    handler.setFormatter(formatter)
    logger.addHandler(handler)
    return handler


def _admit_line_of_library(record: logging.LogRecord) -> bool:
    is_admitted, before = limited_lines.admit(("lines of a library", record.name))
    if before is not None:
        _report(before)
    return is_admitted


class HumanFormatter(logging.Formatter):
    """`2026-11-16 12:00:00.123 INFO  net  connection closed peer=127.0.0.1 reason=idle`."""

    def __init__(self, *, coloured: bool) -> None:
        super().__init__()
        self._coloured = coloured

    def format(self, record: logging.LogRecord) -> str:
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
        level = f"{record.levelname:<7}"
        name = record.name.removeprefix("tidelog.")
        message = record.getMessage()
        if self._coloured:
            colour = _COLOURS.get(record.levelno, "")
            line = f"\x1b[2m{stamp}.{int(record.msecs):03d}{_RESET} {colour}{level}{_RESET} {name}: {message}"
        else:
            line = f"{stamp}.{int(record.msecs):03d} {level} {name}: {message}"
        if record.exc_info:
            line = f"{line}\n{self.formatException(record.exc_info)}"
        return line


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time (UTC, ISO 8601), level, logger, event, then the fields."""

    def __init__(self) -> None:
        super().__init__()
        import json

        # ASCII, so that lone surrogates out of a peer's bytes cannot fail on their way to the stream.
        self._encode = json.JSONEncoder(ensure_ascii=True, default=str).encode

    def format(self, record: logging.LogRecord) -> str:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, Any] = {
            "time": f"{stamp}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        if isinstance(record.msg, LogEvent):
            line["event"] = record.msg.event
            for key, value in record.msg.fields.items():
                line[key if key not in line else f"field_{key}"] = _json_value(value)
        else:
            line["event"] = record.getMessage()
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return self._encode(line)


def format_fields(fields: dict[str, Any]) -> str:
    return " ".join(f"{key}={_text_value(value)}" for key, value in fields.items())


def _text_value(value: object) -> str:
    """One word where possible; quoted and escaped as soon as it could be mistaken for more than one value or line."""
    text = value if isinstance(value, str) else str(value)
    if len(text) > VALUE_LENGTH_MAX:
        text = f"{text[:VALUE_LENGTH_MAX]}..."
    if text and text.isprintable() and not any(character in text for character in ' "=\\'):
        return text
    escaped = "".join(_escape(character) for character in text)
    return f'"{escaped}"'


def _escape(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    return character if character.isprintable() else character.encode("unicode_escape", "replace").decode()


def _json_value(value: object) -> object:
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else str(value)
    return text if len(text) <= VALUE_LENGTH_MAX else f"{text[:VALUE_LENGTH_MAX]}..."
