"""Runs fast tests with the oldest packages that pyproject.toml allows.

    python -m tools.lowest             the tests below
    python -m tools.lowest tests/log   others

Only dependencies of the library and its extras (except Spark) are old; the tools of the tests are
those of the lock files. The environment is .cache/lowest.
"""

import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

from tools import other_pythons, setup_env
from tools.release import uv

ROOT = Path(__file__).resolve().parents[1]
PLACE = ROOT / ".cache" / "lowest"
#: Its oldest version is its newest: see the comment in pyproject.toml.
_LEFT_OUT = frozenset({"spark", "all"})
TESTS = (
    *other_pythons.TESTS,
    *("tests/cli", "tests/predicates", "tests/tiering", "tests/typed", "--ignore-glob=*spark*"),
)


def requirements(project: dict[str, object]) -> list[str]:
    """Return what the library and its extras need, as pyproject.toml has it."""
    needed, extras = project["dependencies"], project["optional-dependencies"]
    assert isinstance(needed, list)
    assert isinstance(extras, dict)
    chosen = (each for name, each in extras.items() if name not in _LEFT_OUT)
    return [*needed, *(line for each in chosen for line in each)]


def without_oldest(lock: str, packages: Sequence[str]) -> str:
    """Return a lock file without the packages whose oldest version is wanted."""
    names = {name_of(each) for each in packages}
    return other_pythons.without(lock, frozenset(names) | other_pythons.LEFT_OUT)


def name_of(requirement: str) -> str:
    """Return the package that a requirement is about."""
    for number, letter in enumerate(requirement):
        if letter in "[<>=~! ;":
            return requirement[:number]
    return requirement


def prepare() -> Path:
    """Make the environment; return its Python."""
    needed = requirements(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"])
    uv("venv", "--clear", "--no-project", "--python", sys.executable, str(PLACE))
    python = PLACE / "bin" / "python"
    into = ("--python", str(python))
    rest = PLACE / "rest.txt"
    rest.write_text(without_oldest((ROOT / setup_env.DEV_LOCK).read_text(), needed))
    uv("pip", "sync", *into, "--require-hashes", str(rest))
    uv("pip", "install", *into, "--resolution", "lowest-direct", *needed)
    uv("pip", "install", *into, "--no-deps", "--no-build-isolation", "--editable", str(ROOT))
    return python


def main(arguments: Sequence[str]) -> int:
    try:
        python = prepare()
    except setup_env.SetupError as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    command = [str(python), "-m", "pytest", "-q", "-n", "auto", "--maxprocesses", "4"]
    command += ["-m", "not slow and not heavy", *(arguments or TESTS)]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
