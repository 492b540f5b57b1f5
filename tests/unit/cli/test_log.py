"""`tidelog log` as people and programs call it."""

import json
from pathlib import Path

import pytest
from tests.unit.storage.partition_log import NOW, append, end_transaction, open_log

from tidelog.cli.main import main

LOG = "00000000000000000000.log"


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    log = open_log(tmp_path, index_interval_bytes=0)
    append(log, [(b"key", b"value with blanks"), (None, None), (b"\xff\x00", b"x" * 500)], compression=4)
    append(log, [(b"k", b"v")], producer_id=4, producer_epoch=1, base_sequence=0, transactional=True)
    end_transaction(log, 4, commit=False, epoch=1)
    log.close()
    return tmp_path / "topic-0"


def test_verify_an_intact_directory(partition: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "verify", str(partition.parent)]) == 0
    size = (partition / LOG).stat().st_size
    assert capsys.readouterr().out == f"1 logs, 1 segments, 3 batches, 5 records, {size} B: all intact\n"
    assert main(["log", "verify", str(partition), "--json", "--records"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["damaged"] == 0
    assert document["logs"][0]["next_offset"] == 5


def test_verify_names_each_problem_in_a_line(partition: Path, capsys: pytest.CaptureFixture[str]) -> None:
    size = (partition / LOG).stat().st_size
    with (partition / LOG).open("ab") as file:
        file.write(b"torn")
    assert main(["log", "verify", str(partition)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith(f"damage: {partition / LOG}: position {size}: 4 bytes are too few for a batch; ")
    assert lines[0].endswith("4 bytes from offset 5 on are lost")
    assert lines[1].endswith("1 damaged")
    assert main(["log", "verify", str(partition), "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["damaged"] == 1
    assert document["logs"][0]["problems"][0]["damage"]


def test_dump_for_people(partition: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "dump", str(partition / LOG), "--records"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 8
    assert lines[0].startswith("position=0 base_offset=0 last_offset=2 record_count=3 size=")
    assert "compression=zstd" in lines[0]
    assert lines[1] == f'  offset=0 timestamp={NOW} key=key value="value with blanks"'
    assert lines[2] == f"  offset=1 timestamp={NOW} key=null value=null"
    assert lines[3].startswith(f"  offset=2 timestamp={NOW} key=0xff00 value=xxx")
    assert lines[3].endswith("(500 characters)")
    assert "producer_id=4 producer_epoch=1 base_sequence=0 transactional=yes" in lines[4]
    assert "control=abort" in lines[7]


def test_dump_of_a_whole_data_directory(partition: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "dump", str(partition.parent)]) == 1
    assert f"no segment in {partition.parent}; name one of its 1 directories" in capsys.readouterr().err


def test_dump_for_programs(partition: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "dump", str(partition), "--records", "--json"]) == 0
    documents = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [document["base_offset"] for document in documents] == [0, 3, 4]
    # As `tidelog consume --json` has it: text and bytes cannot be taken for one another.
    encoded = {"key": "/wA=", "key_encoding": "base64", "value": "x" * 500}
    assert documents[0]["records"][2] == {"offset": 2, "timestamp": NOW, **encoded}
    assert all(document["valid"] for document in documents)


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("00000000000000000000.index", {"offset", "position"}),
        ("00000000000000000000.timeindex", {"timestamp", "offset"}),
        ("00000000000000000000.txnindex", {"producer_id", "first_offset", "last_offset", "last_stable_offset"}),
    ],
)
def test_dump_an_index(partition: Path, name: str, fields: set[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "dump", str(partition / name), "--json"]) == 0
    documents = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert documents
    assert set(documents[0]) == fields


def test_dump_shows_a_wrong_checksum_and_a_torn_tail(partition: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = bytearray((partition / LOG).read_bytes())
    content[80] ^= 1
    (partition / LOG).write_bytes(content + b"x")
    assert main(["log", "dump", str(partition / LOG)]) == 1
    output = capsys.readouterr()
    assert "valid=no" in output.out.splitlines()[0]
    assert "too few for a batch" in output.err


@pytest.mark.parametrize("verb", ["dump", "verify"])
def test_what_is_not_there_is_one_line(tmp_path: Path, verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    for path in (tmp_path / "missing", tmp_path):
        assert main(["log", verb, str(path)]) == 1
        output = capsys.readouterr()
        assert output.out == ""
        assert len(output.err.splitlines()) == 1
    (tmp_path / "strange.txt").write_text("")
    assert main(["log", verb, str(tmp_path / "strange.txt")]) == 1
    (tmp_path / "00000000000000000000.timeindex").write_bytes(b"12345")
    assert main(["log", "dump", str(tmp_path / "00000000000000000000.timeindex")]) == 1
