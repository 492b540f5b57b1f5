"""A table for a terminal: a bold header with a line below it, and cells that are folded so that the table fits.

Written here because it is all the commands need of a library for terminals, and the common one brings four packages
and twelve megabytes. Cells may hold what clients send: a character that could steer the terminal is not printed.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Sequence

GAP, NARROW_GAP = "   ", "  "
"""Between two columns; columns move closer together before a cell is folded."""
BOLD, NORMAL = "\x1b[1m", "\x1b[0m"


def draw_table(
    titles: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[bool], width: int, styled: bool, rule: str
) -> list[str]:
    """The lines of the table. `right` says which columns are aligned to the right, `rule` is one piece of the line."""
    cells = [[_printable(text) for text in row] for row in [titles, *rows]]
    natural = [max(text_width(line) for row in cells for line in row[index]) for index in range(len(titles))]
    gap = GAP if sum(natural) + len(GAP) * (len(titles) - 1) + 2 <= width else NARROW_GAP
    widths = fit_widths(natural, width - len(gap) * (len(titles) - 1) - 2)
    lines: list[str] = []
    for number, row in enumerate(cells):
        before, after = (f" {BOLD}", NORMAL) if styled and number == 0 else (" ", "")
        lines.extend(before + line + after for line in _row_lines(row, widths, right, gap))
        if number == 0:
            lines.append(" " + rule * (sum(widths) + len(gap) * (len(widths) - 1)))
    return lines


def fit_widths(natural: Sequence[int], available: int) -> list[int]:
    """The widths of the columns: the widest give way first, and none gets narrower than one character."""
    if sum(natural) <= available:
        return list(natural)
    limits = (limit for limit in range(available, 0, -1) if sum(min(width, limit) for width in natural) <= available)
    limit = next(limits, 1)
    widths = [min(width, limit) for width in natural]
    spare = max(available - sum(widths), 0)
    for index, width in enumerate(natural):
        if width > widths[index] and spare:
            widths[index] += 1
            spare -= 1
    return widths


def fold(text: str, width: int) -> list[str]:
    """Lines of at most this width, broken at blanks; a word that is too long is cut."""
    lines, line = [], ""
    for word in text.split(" "):
        if line and text_width(line) + 1 + text_width(word) > width:
            lines.append(line)
            line = ""
        elif line:
            line += " "
        while text_width(line) + text_width(word) > width and word:
            kept = _cut(word, max(width, 1))
            lines.append(kept)
            word = word[len(kept) :]
        line += word
    return [*lines, line] if line or not lines else lines


def text_width(text: str) -> int:
    """How many places a terminal needs: characters of East Asia take two, accents that are added to a letter none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def wants_style() -> bool:
    """Whether bold text is welcome: not on a terminal that is called dumb, nor where NO_COLOR is set."""
    return os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR")


def _row_lines(row: Sequence[Sequence[str]], widths: Sequence[int], right: Sequence[bool], gap: str) -> list[str]:
    folded = [[part for line in cell for part in fold(line, width)] for cell, width in zip(row, widths, strict=True)]
    lines = []
    for number in range(max(map(len, folded))):
        texts = [parts[number] if number < len(parts) else "" for parts in folded]
        padded = []
        for text, width, to_the_right in zip(texts, widths, right, strict=True):
            blanks = " " * max(width - text_width(text), 0)
            padded.append(blanks + text if to_the_right else text + blanks)
        lines.append(gap.join(padded).rstrip())
    return lines


def _cut(word: str, width: int) -> str:
    """As many characters as fit, and one at least."""
    end = 1
    while end < len(word) and text_width(word[: end + 1]) <= width:
        end += 1
    return word[:end]


def _printable(text: str) -> list[str]:
    return ["".join(char if char.isprintable() else "\ufffd" for char in line) for line in text.split("\n")]
