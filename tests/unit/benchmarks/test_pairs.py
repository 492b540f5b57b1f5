"""Two checkouts in turns: which values make a pair, and what is said about them."""

from __future__ import annotations

import pytest
from benchmarks.figures import FIGURES
from benchmarks.pairs import Pair, Quantity, pair_up, quantity, summarise_quantities, table
from benchmarks.session import in_turn

SAMPLES = {
    "this": {
        "bare-socket.cpu_us": [30.0, 22.0, 90.0],
        "bare-socket.p50_ms": [0.1, 0.2, 0.3],
        "groups-commits.cpu_us": [10.0, 10.0, 10.0],
        "groups-commits.rate": [3000.0],
    },
    "other": {
        "bare-socket.cpu_us": [20.0, 20.0, 60.0],
        "bare-socket.p50_ms": [0.1, 0.0, 0.1],
        "groups-commits.cpu_us": [20.0, 20.0, 20.0],
        "groups-commits.rate": [2000.0],
        "memory.idle_mib": [50.0],
    },
}


def test_values_of_the_same_round_are_a_pair() -> None:
    paired = {figure.key: pairs for figure, pairs in pair_up(SAMPLES, "this", "other")}
    assert paired["bare-socket.cpu_us"] == [Pair(30.0, 20.0), Pair(22.0, 20.0), Pair(90.0, 60.0)]
    # What was 0 has no ratio, and what only one of them has is no pair.
    assert paired["bare-socket.p50_ms"] == [Pair(0.1, 0.1), Pair(0.3, 0.1)]
    assert "memory.idle_mib" not in paired


def test_quantities_are_summed_up_over_all_pairs_of_all_cases() -> None:
    ratios = summarise_quantities(pair_up(SAMPLES, "this", "other"))
    assert list(ratios) == [Quantity.CPU, Quantity.THROUGHPUT, Quantity.TIME]
    assert ratios[Quantity.CPU] == pytest.approx([1.5, 1.1, 1.5, 0.5, 0.5, 0.5])
    assert ratios[Quantity.THROUGHPUT] == [1.5]


def test_the_table_shows_medians_of_ratios_not_ratios_of_medians() -> None:
    lines = table(pair_up(SAMPLES, "this", "other"), "this", "abc").splitlines()
    assert lines[0] == "| figure | this | abc | ratio | lowest to highest |"
    [cpu] = [line for line in lines if "bare socket: broker CPU" in line]
    assert cpu.endswith("| 30 | 20 | 1.500 | 1.10 to 1.50 |")
    assert lines[-3] == "| **all: CPU** | | | 0.800 | 0.50 to 1.50 |"


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("groups-many-classic.stable_cpu_s", Quantity.CPU),
        ("groups-many-classic.stable_s", Quantity.TIME),
        ("groups-many-classic.beat_rate", Quantity.THROUGHPUT),
        ("nodes.growth", Quantity.THROUGHPUT),
        ("memory.idle_mib", Quantity.MEMORY),
        ("one-at-a-time.p99_ms", Quantity.TIME),
    ],
)
def test_every_figure_has_a_quantity(key: str, expected: Quantity) -> None:
    [figure] = [figure for figure in FIGURES if figure.key == key]
    assert quantity(figure) is expected


def test_every_other_round_goes_the_other_way_round() -> None:
    assert [in_turn("ab", number) for number in range(3)] == [["a", "b"], ["b", "a"], ["a", "b"]]
