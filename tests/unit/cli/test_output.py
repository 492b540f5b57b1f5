"""Tables, units and percentiles."""

from __future__ import annotations

import io
import json

import pytest

from tidelog.cli import output
from tidelog.cli.output import Column, Progress


def test_a_piped_table_is_aligned_text(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_table(
        ["topic", Column("records", right=True), "internal"], [["a", 1234567, False], ["longer", None, True]]
    )
    assert capsys.readouterr().out == ("topic     records  internal\na       1,234,567  no\nlonger          -  yes\n")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_table_on_a_terminal_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    output.print_table(["topic"], [["[red]not markup[/red]"]], title="Topics")
    text = terminal.getvalue()
    assert "─" in text
    assert "[red]not markup[/red]" in text
    assert "Topics" in text


def test_fields_are_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_fields([("id", "x"), ("partitions", 3)])
    assert capsys.readouterr().out == "id          x\npartitions  3\n"


def test_json_is_one_document_and_keeps_text_readable(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_json([{"name": "größe", "none": None}])
    text = capsys.readouterr().out
    assert json.loads(text) == [{"name": "größe", "none": None}]
    assert "größe" in text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (5 * 1024**3, "5.0 GiB"),
        (1024**5, "1024.0 TiB"),
    ],
)
def test_sizes(size: int, text: str) -> None:
    assert output.format_bytes(size) == text


@pytest.mark.parametrize(("seconds", "text"), [(0.0123, "12.3 ms"), (1.234, "1.23 s"), (75, "75.0 s")])
def test_durations(seconds: float, text: str) -> None:
    assert output.format_seconds(seconds) == text


def test_rates() -> None:
    assert output.format_rate(5000, 2.0) == "2,500/s"
    assert output.format_rate(1, 0.0) == "-/s"


@pytest.mark.parametrize(("share", "expected"), [(0.5, 50), (0.99, 99), (0.999, 100), (0.0, 1), (1.0, 100)])
def test_percentiles_by_nearest_rank(share: float, expected: int) -> None:
    assert output.percentile(list(range(1, 101)), share) == expected


def test_percentiles_of_one_and_of_nothing() -> None:
    assert output.percentile([7.0], 0.99) == 7.0
    with pytest.raises(ValueError):
        output.percentile([], 0.5)


def test_progress_is_shown_on_a_terminal_and_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    progress = Progress("read:", 200)
    progress.update(100)
    assert "read: 100 (50%)" in terminal.getvalue()
    progress.close()
    assert terminal.getvalue().endswith(" \r")


def test_progress_is_silent_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = io.StringIO()
    monkeypatch.setattr("sys.stderr", pipe)
    progress = Progress("read:", 200)
    progress.update(100)
    progress.close()
    assert pipe.getvalue() == ""
