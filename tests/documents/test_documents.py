"""Every command, program and file of the documents works as a reader finds it, from the first to the last."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.documents.blocks import commands, documents, read_blocks
from tests.documents.not_run import why_not_read
from tests.documents.reader import Reader

ROOT = Path(__file__).parents[2]


def runnable_documents() -> list[Path]:
    return [
        document
        for document in documents(ROOT)
        if any(why_not_read(block) is None for block in read_blocks(ROOT, document))
    ]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("document", runnable_documents(), ids=str)
def test_a_reader_can_follow(document: Path, reader: Reader) -> None:
    reader.follow(document)
    saved = {word for block in read_blocks(ROOT, document) for word in block.words}
    left = [name for name in reader.untracked_files() if Path(name).name not in {Path(word).name for word in saved}]
    assert not left, f"{document} leaves files that git does not ignore: {left[:5]}"
    if reader.left_out:
        text = f"left out, since this machine lacks the program: {', '.join(reader.left_out)}"
        assert not os.environ.get("CI"), text
        print(text)


def test_the_readme_is_among_them() -> None:
    assert {Path("README.md"), Path("CONTRIBUTING.md"), Path("examples/README.md")} <= set(runnable_documents())
    assert sum(len(commands(block)) for block in read_blocks(ROOT, Path("README.md")) if block.language == "bash") > 10
