import io
import json
import logging
import time
import timeit
from collections.abc import Iterator

import pytest

from tidelog.telemetry.logs import (
    LIMITED_KEYS_MAX,
    VALUE_LENGTH_MAX,
    HumanFormatter,
    RateLimiter,
    StructuredLogger,
    configure,
    get_logger,
)


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """What `configure` writes to; the logging of the process is put back afterwards."""
    root = logging.getLogger("tidelog")
    before = (root.level, root.propagate, list(root.handlers))
    yield io.StringIO()
    root.setLevel(before[0])
    root.propagate = before[1]
    root.handlers[:] = before[2]


def test_human_line(stream: io.StringIO) -> None:
    configure(stream=stream)
    get_logger("tidelog.net").info("connection closed", peer="127.0.0.1", port=9092, reason="idle")
    line = stream.getvalue()
    assert line.endswith("INFO    net: connection closed peer=127.0.0.1 port=9092 reason=idle\n")
    assert "\x1b" not in line


def test_a_peer_cannot_forge_a_line_or_a_field(stream: io.StringIO) -> None:
    configure(stream=stream)
    get_logger("tidelog.net").warning("bad client", client='x"\n2026 INFO all is well\x1b[31m admin=yes\ud800')
    text = stream.getvalue()
    assert text.count("\n") == 1
    assert '''client="x\\"\\n2026 INFO all is well\\x1b[31m admin=yes\\ud800"''' in text
    text.encode()


def test_long_values_are_cut(stream: io.StringIO) -> None:
    configure(stream=stream)
    get_logger("tidelog.net").warning("bad client", client="x" * 100_000)
    assert len(stream.getvalue()) < VALUE_LENGTH_MAX + 100


def test_json_line(stream: io.StringIO) -> None:
    configure(stream=stream, log_format="json")
    get_logger("tidelog.storage").warning(
        "log cut", topic="a\nb\ud800", bytes=12, clean=False, level="x", path=Ellipsis
    )
    text = stream.getvalue()
    assert text.count("\n") == 1
    line = json.loads(text)
    assert line["level"] == "warning"
    assert line["logger"] == "tidelog.storage"
    assert line["event"] == "log cut"
    assert (line["topic"], line["bytes"], line["clean"], line["field_level"]) == ("a\nb\ud800", 12, False, "x")
    assert line["time"].endswith("Z")


def test_json_carries_the_traceback_in_the_same_line(stream: io.StringIO) -> None:
    configure(stream=stream, log_format="json")
    try:
        raise RuntimeError("broken")
    except RuntimeError:
        get_logger("tidelog.node").exception("handler failed", api="Produce")
    line = json.loads(stream.getvalue())
    assert "RuntimeError: broken" in line["exception"]


def test_plain_records_of_the_standard_library_pass_too(stream: io.StringIO) -> None:
    configure(stream=stream)
    logging.getLogger("tidelog.other").info("plain %d", 7)
    assert stream.getvalue().endswith("other: plain 7\n")


def test_other_handlers_see_event_and_fields_as_the_message(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "tidelog"):
        get_logger("tidelog.net").info("connection closed", reason="idle")
    assert caplog.messages == ["connection closed reason=idle"]
    assert caplog.records[0].filename == "test_logs.py"


def test_levels_filter_and_a_second_configure_replaces_the_first(stream: io.StringIO) -> None:
    configure(stream=io.StringIO())
    configure(stream=stream, level="warning")
    logger = get_logger("tidelog.net")
    logger.info("not this")
    logger.debug("nor this")
    logger.error("this")
    assert stream.getvalue().count("\n") == 1
    assert "this" in stream.getvalue()
    assert len([handler for handler in logging.getLogger("tidelog").handlers if handler.get_name() == "tidelog"]) == 1


def test_wrong_format_and_level_are_refused(stream: io.StringIO) -> None:
    with pytest.raises(ValueError, match="neither human nor json"):
        configure(stream=stream, log_format="xml")
    with pytest.raises(ValueError, match="LOUD"):
        configure(stream=stream, level="loud")


def test_colour_marks_the_level() -> None:
    record = logging.LogRecord("tidelog.net", logging.ERROR, "f", 1, "oops", (), None)
    assert "\x1b[31mERROR" in HumanFormatter(coloured=True).format(record)


def test_rate_limiter_admits_so_many_per_second_and_says_what_it_held_back() -> None:
    limiter = RateLimiter(lines_per_second=2)
    assert [limiter.admit("k", 10.0 + step / 100) for step in range(5)] == [0, 0, None, None, None]
    assert limiter.admit("other", 10.5) == 0
    assert limiter.admit("k", 10.99) is None
    assert limiter.admit("k", 11.0) == 4
    assert limiter.admit("k", 11.1) == 0
    assert limiter.admit("k", 11.2) is None


def test_rate_limiter_stays_bounded_whatever_the_keys() -> None:
    limiter = RateLimiter()
    for key in range(LIMITED_KEYS_MAX * 3):
        limiter.admit(str(key), 1.0)
    assert len(limiter._windows) == LIMITED_KEYS_MAX


def test_limited_warnings(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("tidelog.telemetry.logs.time.monotonic", lambda: now)
    configure(stream=stream)
    logger = get_logger("tidelog.net")
    for attempt in range(1000):
        logger.warning_limited("malformed frame", peer=f"10.0.0.{attempt}")
    assert stream.getvalue().count("\n") == 5
    now = 101.5
    logger.warning_limited("malformed frame", peer="10.0.0.1")
    assert stream.getvalue().endswith("suppressed=995\n")


def test_a_filtered_line_costs_next_to_nothing() -> None:
    logger = StructuredLogger(logging.getLogger("tidelog.test_filtered_cost"))
    logging.getLogger("tidelog.test_filtered_cost").setLevel(logging.WARNING)
    # Its own time, not that of whatever else runs here.
    runs = timeit.repeat(
        lambda: logger.debug("an event", key=1, other="x"), timer=time.process_time, number=10_000, repeat=10
    )
    # The promise is 1 us; the bound leaves room for a machine whose caches and clock are busy with other things.
    assert min(runs) / 10_000 < 3e-6
