"""Tables on a terminal: they fit its width, whatever is in them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.cli.terminal_table import draw_table, fit_widths, fold, text_width, wants_style


def draw(titles: list[str], rows: list[list[str]], width: int = 80, **options: bool) -> list[str]:
    right = [title in ("records", "n") for title in titles]
    return draw_table(titles, rows, right=right, width=width, styled=options.get("styled", False), rule="─")


def test_a_table_that_fits() -> None:
    assert draw(["topic", "records"], [["orders", "1,200"], ["日本", "7"]]) == [
        " topic    records",
        " ────────────────",
        " orders     1,200",
        " 日本           7",
    ]


def test_long_cells_are_folded_and_the_widest_column_gives_way() -> None:
    assert draw(["a", "what it is", "n"], [["x", "one two three four five", "1"]], width=24) == [
        " a  what it is        n",
        " ──────────────────────",
        " x  one two three     1",
        "    four five",
    ]


def test_columns_move_closer_before_a_cell_is_folded() -> None:
    assert draw(["topic", "checksum"], [["orders", "bb10ac8b80aa6d6b"]], width=26) == [
        " topic   checksum",
        " ────────────────────────",
        " orders  bb10ac8b80aa6d6b",
    ]


def test_the_header_is_bold_where_that_is_welcome(monkeypatch: pytest.MonkeyPatch) -> None:
    assert draw(["a"], [["b"]], styled=True) == [" \x1b[1ma\x1b[0m", " ─", " b"]
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert wants_style()
    monkeypatch.setenv("NO_COLOR", "1")
    assert not wants_style()
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not wants_style()


def test_what_clients_send_cannot_steer_the_terminal() -> None:
    assert draw(["client"], [["a\x1b[2Jb\r\x07\tc"], ["two\nlines"]])[2:] == [
        " a\ufffd[2Jb\ufffd\ufffd\ufffdc",
        " two",
        " lines",
    ]


@given(st.lists(st.integers(1, 200), min_size=1, max_size=8), st.integers(1, 200))
def test_widths_fill_what_is_available_and_no_more(natural: list[int], available: int) -> None:
    widths = fit_widths(natural, available)
    assert all(1 <= width <= wish for width, wish in zip(widths, natural, strict=True))
    assert sum(widths) <= max(available, len(natural))
    if sum(natural) > available >= len(natural):
        assert sum(widths) == available


@given(st.text("ab 日e\u0301", max_size=60), st.integers(2, 20))
def test_folding_loses_nothing_but_blanks(text: str, width: int) -> None:
    lines = fold(text, width)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert all(text_width(line) <= width for line in lines)
