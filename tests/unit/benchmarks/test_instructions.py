"""What is read of callgrind's profiles, and what becomes of the counts."""

from __future__ import annotations

import pytest
from benchmarks.instructions.counting import Count, summarise
from benchmarks.instructions.profile import UnreadableProfile, read_instructions
from benchmarks.instructions.table import table

PROFILE = """\
# callgrind format
version: 1
creator: callgrind-3.19.0
pid: 13742
cmd:  python quiet_node.py serve
part: 2

desc: I1 cache:
desc: Timerange: Basic block 5354889 - 5395998
desc: Trigger: dump

positions: line
events: Ir
summary: 200692

ob=(12) /usr/lib/libpython3.11.so.1.0
fl=(100) ???
fn=(101) _PyEval_EvalFrameDefault
0 5000
calls=1 0
0 195692

totals: 200692
"""


def test_the_total_of_a_profile() -> None:
    assert read_instructions(PROFILE) == 200692


@pytest.mark.parametrize(
    "text",
    [
        "",
        PROFILE.replace("events: Ir", "events: Ir Dr Dw"),
        PROFILE.replace("totals: 200692\n", ""),
        PROFILE.replace("totals: 200692", "totals: "),
        PROFILE + "totals: 1\n",
    ],
    ids=["empty", "other events", "cut off", "cut off in the total", "two totals"],
)
def test_what_is_no_whole_profile_of_instructions_is_refused(text: str) -> None:
    with pytest.raises(UnreadableProfile):
        read_instructions(text)


def test_rounds_are_summed_up_by_their_median_and_spread() -> None:
    assert summarise([110.0, 100.0, 90.0]) == Count(100.0, 0.2)
    assert summarise([100.0]) == Count(100.0, 0.0)


def test_ratios_are_to_the_first_checkout() -> None:
    first = {"produce": Count(1000.0, 0.0), "join": Count(200_000.4, 0.1)}
    second = {"produce": Count(1100.0, 0.0), "join": Count(100_000.0, 0.0)}
    assert table([("v1", first), (".", second)]) == (
        "| instructions per request | v1 | . | . / v1 |\n"
        "|---|---:|---:|---:|\n"
        "| produce | 1,000 | 1,100 | 1.100 |\n"
        "| join | 200,000 | 100,000 | 0.500 |"
    )
    assert table([(".", first)]).splitlines()[2] == "| produce | 1,000 |"
