"""The size watch of the repository, and proof that it can fail."""

from pathlib import Path

from tools.check_sizes import FILE_LINES_MAX, FUNCTION_LINES_MAX, find_offenders

ROOT = Path(__file__).resolve().parent.parent


def test_nothing_in_the_repository_is_too_large() -> None:
    assert list(find_offenders(ROOT)) == []


def test_the_watch_sees_files_functions_and_names(tmp_path: Path) -> None:
    package = tmp_path / "src" / "tidelog"
    package.mkdir(parents=True)
    (package / "long.py").write_text("x = 1\n" * (FILE_LINES_MAX + 1))
    (package / "edge.py").write_text("x = 1\n" * FILE_LINES_MAX)
    body = "    x = 1\n"
    (package / "function.py").write_text(
        "def edge():\n" + body * (FUNCTION_LINES_MAX - 1) + "\n\nasync def over():\n" + body * FUNCTION_LINES_MAX
    )
    (package / "utils.py").write_text("")
    (tmp_path / "tests" / "helpers").mkdir(parents=True)
    (tmp_path / "tests" / "helpers" / "test_x.py").write_text("")
    generated = package / "protocol" / "generated"
    generated.mkdir(parents=True)
    (generated / "fetch.py").write_text("x = 1\n" * 10_000)

    offenders = list(find_offenders(tmp_path))
    assert [offender.split(": ")[0] for offender in offenders] == [
        "src/tidelog/function.py:73",
        "src/tidelog/long.py",
        "src/tidelog/utils.py",
        "tests/helpers/test_x.py",
    ]
    assert "over has 71 lines" in offenders[0]
    assert "501 lines" in offenders[1]
