"""Leader epochs: the file, assignment, truncation from both ends, and where an epoch ends."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tidelog.storage.errors import CorruptIndex
from tidelog.storage.leader_epochs import EpochStart, LeaderEpochs, decode_checkpoint


def epochs_of(tmp_path: Path, *entries: tuple[int, int]) -> LeaderEpochs:
    epochs = LeaderEpochs.load(str(tmp_path / "leader-epoch-checkpoint"))
    for epoch, offset in entries:
        epochs.assign(epoch, offset)
    return epochs


def stored(tmp_path: Path) -> list[EpochStart]:
    return decode_checkpoint((tmp_path / "leader-epoch-checkpoint").read_bytes())


def test_the_file_is_kafkas(tmp_path: Path) -> None:
    epochs_of(tmp_path, (0, 0), (3, 120))
    assert (tmp_path / "leader-epoch-checkpoint").read_text() == "0\n2\n0 0\n3 120\n"


def test_no_file_means_no_epochs(tmp_path: Path) -> None:
    epochs = epochs_of(tmp_path)
    assert epochs.entries == ()
    assert epochs.latest_epoch == -1
    assert not (tmp_path / "leader-epoch-checkpoint").exists()


@pytest.mark.parametrize(
    "content", [b"", b"1\n0\n", b"0\n2\n0 0\n", b"0\n1\n0\n", b"0\n1\n0 x\n", b"0\nx\n", b"\xff", b"0\n0\n1 1\n"]
)
def test_a_damaged_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "leader-epoch-checkpoint").write_bytes(content)
    with pytest.raises(CorruptIndex):
        epochs_of(tmp_path)


@pytest.mark.parametrize(
    ("epoch", "offset", "expected"),
    [
        (5, 40, [(0, 0), (2, 20), (4, 30), (5, 40)]),
        pytest.param(4, 40, [(0, 0), (2, 20), (4, 30)], id="known epoch goes on"),
        pytest.param(4, 25, [(0, 0), (2, 20), (4, 25)], id="known epoch begins earlier"),
        pytest.param(5, 30, [(0, 0), (2, 20), (5, 30)], id="epoch without batches"),
        pytest.param(3, 25, [(0, 0), (2, 20), (3, 25)], id="history was rewritten"),
        pytest.param(5, 0, [(5, 0)], id="from the beginning"),
        pytest.param(-1, 40, [(0, 0), (2, 20), (4, 30)], id="no epoch"),
    ],
)
def test_assigning(tmp_path: Path, epoch: int, offset: int, expected: list[tuple[int, int]]) -> None:
    epochs = epochs_of(tmp_path, (0, 0), (2, 20), (4, 30))
    epochs.assign(epoch, offset)
    assert list(epochs.entries) == expected
    assert stored(tmp_path) == expected
    assert epochs.latest_epoch == expected[-1][0]


@pytest.mark.parametrize(
    ("end", "expected"),
    [(31, [(0, 0), (2, 20), (4, 30)]), (30, [(0, 0), (2, 20)]), (21, [(0, 0), (2, 20)]), (20, [(0, 0)]), (0, [])],
)
def test_truncating_from_the_end(tmp_path: Path, end: int, expected: list[tuple[int, int]]) -> None:
    epochs = epochs_of(tmp_path, (0, 0), (2, 20), (4, 30))
    epochs.truncate_from_end(end)
    assert stored(tmp_path) == expected


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (0, [(0, 0), (2, 20), (4, 30)]),
        (5, [(0, 5), (2, 20), (4, 30)]),
        (20, [(2, 20), (4, 30)]),
        (29, [(2, 29), (4, 30)]),
        (99, [(4, 99)]),
    ],
)
def test_truncating_from_the_start(tmp_path: Path, start: int, expected: list[tuple[int, int]]) -> None:
    epochs = epochs_of(tmp_path, (0, 0), (2, 20), (4, 30))
    epochs.truncate_from_start(start)
    assert stored(tmp_path) == expected


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [
        (-1, (-1, -1)),
        pytest.param(0, (0, 10), id="before every known epoch"),
        (1, (1, 20)),
        (2, (2, 30)),
        pytest.param(3, (2, 30), id="an epoch that wrote nothing"),
        pytest.param(4, (4, 100), id="the latest ends with the log"),
        pytest.param(5, (-1, -1), id="in the future"),
    ],
)
def test_end_of_an_epoch(tmp_path: Path, epoch: int, expected: tuple[int, int]) -> None:
    assert epochs_of(tmp_path, (1, 10), (2, 20), (4, 30)).end_offset_for(epoch, 100) == expected


def test_end_of_an_epoch_in_an_empty_log(tmp_path: Path) -> None:
    assert epochs_of(tmp_path).end_offset_for(0, 100) == (-1, -1)


@pytest.mark.parametrize(("offset", "epoch"), [(9, -1), (10, 1), (19, 1), (20, 2), (500, 2)])
def test_epoch_of_an_offset(tmp_path: Path, offset: int, epoch: int) -> None:
    assert epochs_of(tmp_path, (1, 10), (2, 20)).epoch_for_offset(offset) == epoch


def test_a_file_that_cannot_be_written_is_written_later(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    directory = tmp_path / "gone"
    epochs = LeaderEpochs.load(str(directory / "leader-epoch-checkpoint"))
    with caplog.at_level(logging.WARNING, "tidelog.storage"):
        epochs.assign(1, 10)
    assert "cannot write" in caplog.text
    directory.mkdir()
    epochs.save()
    assert stored(directory) == [(1, 10)]
