import io
import json
import logging
import time
import timeit
from collections.abc import Iterator

import pytest

from tidelog.telemetry.line_limits import LINES_PER_WINDOW, WINDOW_S
from tidelog.telemetry.logs import (
    VALUE_LENGTH_MAX,
    HumanFormatter,
    LimitedLines,
    StructuredLogger,
    configure,
    get_logger,
    report_held_back,
)


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """What `configure` writes to; the logging of the process is put back afterwards."""
    own, root = logging.getLogger("tidelog"), logging.getLogger()
    before = (own.level, own.propagate, list(own.handlers), list(root.handlers))
    yield io.StringIO()
    own.setLevel(before[0])
    own.propagate = before[1]
    own.handlers[:], root.handlers[:] = before[2:]
    logging.captureWarnings(False)


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


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time as the limiter of this process sees it, and that limiter without what others have left in it."""
    now = [100.0]
    monkeypatch.setattr("tidelog.telemetry.logs.limited_lines", LimitedLines())
    monkeypatch.setattr("tidelog.telemetry.logs.time.monotonic", lambda: now[0])
    return now


def test_limited_warnings_are_counted_in_one_line(stream: io.StringIO, clock: list[float]) -> None:
    configure(stream=stream)
    logger = get_logger("tidelog.net")
    for attempt in range(45_000):
        logger.warning_limited(
            "closed a connection", limit_by=("reason", "peer"), reason="malformed", peer="10.0.0.1", port=attempt
        )
    report_held_back()
    assert stream.getvalue().count("\n") == LINES_PER_WINDOW
    clock[0] += WINDOW_S
    report_held_back()
    report_held_back()
    *_, last = stream.getvalue().splitlines()
    assert stream.getvalue().count("\n") == LINES_PER_WINDOW + 1
    assert last.endswith("net: closed a connection reason=malformed peer=10.0.0.1 not_logged=44997 seconds=60")


def test_a_line_after_the_window_is_preceded_by_the_count(stream: io.StringIO, clock: list[float]) -> None:
    configure(stream=stream)
    logger = get_logger("tidelog.net")
    for _ in range(10):
        logger.warning_limited("refused", limit_by=("peer",), peer="10.0.0.1")
    clock[0] += 90
    logger.warning_limited("refused", limit_by=("peer",), peer="10.0.0.1")
    assert [line.partition("refused ")[2] for line in stream.getvalue().splitlines()[LINES_PER_WINDOW:]] == [
        "peer=10.0.0.1 not_logged=7 seconds=90",
        "peer=10.0.0.1",
    ]


def test_a_fault_that_a_peer_repeats_shows_its_traceback_a_few_times(stream: io.StringIO, clock: list[float]) -> None:
    configure(stream=stream)
    logger = get_logger("tidelog.api")
    for _ in range(1000):
        try:
            raise RuntimeError("broken")
        except RuntimeError:
            logger.exception_limited("request failed", limit_by=("api_key",), api_key=3)
    assert stream.getvalue().count("RuntimeError: broken") == LINES_PER_WINDOW


@pytest.mark.parametrize("log_format", ["human", "json"])
def test_warnings_of_libraries_take_the_same_form_and_the_same_limit(
    stream: io.StringIO, clock: list[float], log_format: str
) -> None:
    configure(stream=stream, log_format=log_format)
    for _ in range(1000):
        logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
    clock[0] += WINDOW_S
    report_held_back()
    lines = stream.getvalue().splitlines()
    assert len(lines) == LINES_PER_WINDOW + 1
    if log_format == "json":
        last = json.loads(lines[-1])
        assert (last["event"], last["library"], last["not_logged"]) == ("lines of a library", "uvicorn.error", 997)
        assert json.loads(lines[0])["event"] == "Invalid HTTP request received."
    else:
        assert lines[-1].endswith("lines of a library library=uvicorn.error not_logged=997 seconds=60")


def test_a_filtered_line_costs_next_to_nothing() -> None:
    logger = StructuredLogger(logging.getLogger("tidelog.test_filtered_cost"))
    logging.getLogger("tidelog.test_filtered_cost").setLevel(logging.WARNING)
    # Its own time, not that of whatever else runs here.
    runs = timeit.repeat(
        lambda: logger.debug("an event", key=1, other="x"), timer=time.process_time, number=10_000, repeat=10
    )
    # The promise is 1 us; the bound leaves room for a machine whose caches and clock are busy with other things.
    assert min(runs) / 10_000 < 3e-6
