"""docs/protocol.md is derived from the table of APIs, and a stale one is noticed."""

from pathlib import Path

import pytest
from tools import document_protocol

from tidelog.api.table import APIS
from tidelog.protocol.index import ApiKey, api_name
from tidelog.protocol.private_apis import PRIVATE_API_KEY_MIN


def rows(text: str) -> dict[int, list[str]]:
    found = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and cells[0].isdigit():
            assert int(cells[0]) not in found
            found[int(cells[0])] = cells
    return found


def test_every_api_is_in_the_document_once() -> None:
    served, _, missing = document_protocol.render().partition("## Not served")
    assert set(rows(served)) == {api.key for api in APIS if api.key < PRIVATE_API_KEY_MIN}
    assert set(rows(served)) | set(rows(missing)) == {int(key) for key in ApiKey}
    for key, cells in rows(served).items():
        assert cells[1] == api_name(key)


def test_clients_are_not_told_of_private_apis() -> None:
    assert all(api.between_nodes for api in APIS if api.key >= PRIVATE_API_KEY_MIN)


def test_versions_that_are_not_served_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    narrowed = [api._replace(min_version=api.min_version + 1, max_version=api.max_version - 1) for api in APIS[:1]]
    monkeypatch.setattr(document_protocol, "APIS", [narrowed[0]._replace(partial="half of it")])
    [cells] = rows(document_protocol.render().partition("## Not served")[0]).values()
    assert cells[4] == "half of it; version 13 not served; version 3 not served"


def test_a_stale_document_fails_the_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "protocol.md"
    monkeypatch.setattr(document_protocol, "TARGET", target)
    assert document_protocol.main(["--check"]) == 1
    assert document_protocol.main([]) == 0
    assert document_protocol.main(["--check"]) == 0
    target.write_text(target.read_text().replace("Produce", "Reduce"))
    assert document_protocol.main(["--check"]) == 1
    assert document_protocol.main(["--unknown"]) == 2
