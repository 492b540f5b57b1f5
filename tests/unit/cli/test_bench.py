"""Results and arguments of `tidelog bench`."""

from __future__ import annotations

import pytest

from tidelog.cli.bench_cases import Latencies, Throughput, make_value
from tidelog.cli.main import main


def test_throughput() -> None:
    result = Throughput(1000, 1024 * 1024, 2.0)
    assert result.as_document() == {
        "records": 1000,
        "seconds": 2.0,
        "records_per_second": 500.0,
        "mib_per_second": 0.5,
    }


def test_latencies_are_sorted_before_they_are_summed_up() -> None:
    result = Latencies([number / 1000 for number in range(100, 0, -1)])
    assert result.summary_ms() == pytest.approx((50, 95, 99, 100, 100))
    assert result.as_document()["records"] == 100


@pytest.mark.parametrize("size", [0, 1, 1000])
def test_values_have_the_size_asked_for(size: int) -> None:
    assert len(make_value(size)) == size


@pytest.mark.parametrize(
    "arguments", [["--records", "0"], ["--size", "0"], ["--producers", "-1"], ["--seconds", "0"], ["--case", "consume"]]
)
def test_arguments_that_make_no_sense(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert main(["bench", "-b", "127.0.0.1:1", *arguments]) == 2
    assert capsys.readouterr().err.startswith("tidelog: --")
