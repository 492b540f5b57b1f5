"""Structured logs over the standard library: an event in fixed words, and its facts as key=value.

    logger = get_logger("tidelog.net")
    logger.info("connection closed", peer=host, reason="idle")

Rules: the event never contains data, the fields do; what came from a peer is escaped and cut before it is printed;
lines a peer can cause at will go through `warning_limited`. Handlers are the application's business: a node that is
embedded adds none, `configure` is for `tidelog serve`. Other formatters see `event key=value` as the message.
"""

from __future__ import annotations

import logging
import sys
import time
from typing import IO, Any

VALUE_LENGTH_MAX = 500
LIMITED_LINES_PER_SECOND = 5
LIMITED_KEYS_MAX = 1024

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

    __slots__ = ("_is_enabled_for", "_limiter", "_logger")

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._is_enabled_for = logger.isEnabledFor
        self._limiter = RateLimiter()

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

    def warning_limited(self, event: str, /, *, limit_key: str | None = None, **fields: Any) -> None:
        """A warning of which at most LIMITED_LINES_PER_SECOND per key are printed; the next one says how many were not.

        The key is the event itself unless given; a key a peer can choose defeats the limit.
        """
        if not self._is_enabled_for(logging.WARNING):
            return
        suppressed = self._limiter.admit(limit_key if limit_key is not None else event, time.monotonic())
        if suppressed is None:
            return
        if suppressed:
            fields["suppressed"] = suppressed
        self._logger.log(logging.WARNING, LogEvent(event, fields), stacklevel=2)


class RateLimiter:
    """So many lines per key and second; remembers how many it held back, in a table of bounded size."""

    __slots__ = ("_lines_per_second", "_windows")

    def __init__(self, lines_per_second: int = LIMITED_LINES_PER_SECOND) -> None:
        self._lines_per_second = lines_per_second
        self._windows: dict[str, list[float]] = {}
        """Key -> [second the window began, lines admitted in it, lines held back since the last admitted one]."""

    def admit(self, key: str, now: float) -> int | None:
        """None to hold the line back, otherwise how many of its kind were held back before it."""
        window = self._windows.get(key)
        if window is None:
            if len(self._windows) >= LIMITED_KEYS_MAX:
                self._windows.pop(next(iter(self._windows)))
            self._windows[key] = [now, 1, 0]
            return 0
        if now - window[0] >= 1.0:
            window[0] = now
            window[1] = 0
        if window[1] >= self._lines_per_second:
            window[2] += 1
            return None
        window[1] += 1
        suppressed = int(window[2])
        window[2] = 0
        return suppressed


def get_logger(name: str) -> StructuredLogger:
    """The structured logger over `logging.getLogger(name)`; names start with `tidelog.`."""
    return StructuredLogger(logging.getLogger(name))


def configure(
    *, log_format: str = "human", level: str | int = "INFO", stream: IO[str] | None = None
) -> logging.Handler:
    """Sends everything below `tidelog` to one stream (standard error) and returns the handler.

    Calling it again replaces the handler of the call before. Raises ValueError for an unknown format or level.
    """
    target = stream if stream is not None else sys.stderr
    formatter: logging.Formatter
    if log_format == "human":
        formatter = HumanFormatter(coloured=target.isatty())
    elif log_format == "json":
        formatter = JsonFormatter()
    else:
        raise ValueError(f"log format {log_format!r} is neither human nor json")
    root = logging.getLogger("tidelog")
    root.setLevel(level.upper() if isinstance(level, str) else level)
    for old in [handler for handler in root.handlers if handler.get_name() == "tidelog"]:
        root.removeHandler(old)
    handler = logging.StreamHandler(target)
    handler.set_name("tidelog")
    handler.setFormatter(formatter)
    root.addHandler(handler)
    root.propagate = False
    return handler


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
