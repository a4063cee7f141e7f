"""The public conformance suite of Durable Streams, installed as `pins.json` says."""

import fcntl
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

_HERE = Path(__file__).parent
_PLACE = Path(__file__).parents[3] / ".cache" / "durable-suite"
_INSTALL = ("--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts")


class Findings(NamedTuple):
    """The tests of the suite by what became of them, by name."""

    passed: frozenset[str]
    failed: dict[str, str]
    skipped: frozenset[str]


def installed_suite() -> Path:
    """Return where the suite is; skip the test where it cannot be installed.

    A package that is not the pinned one, to the byte, fails the test.
    """
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("the conformance suite of Durable Streams needs node and npm")
    pins: dict[str, dict[str, str]] = msgspec.json.decode((_HERE / "pins.json").read_bytes())
    _PLACE.parent.mkdir(exist_ok=True)
    with _PLACE.with_suffix(".lock").open("w") as lock:
        # Another test may want it at the same time.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _is_installed(pins):
            _install(npm, pins)
        assert _is_installed(pins), "npm has installed other packages than pins.json has"
        shutil.copy(_HERE / "suite.test.mjs", _PLACE)
    return _PLACE


def _install(npm: str, pins: dict[str, dict[str, str]]) -> None:
    shutil.rmtree(_PLACE, ignore_errors=True)
    _PLACE.mkdir(parents=True)
    versions = {name: each["version"] for name, each in pins.items()}
    package = {"private": True, "type": "module", "dependencies": versions}
    (_PLACE / "package.json").write_bytes(msgspec.json.encode(package))
    done = subprocess.run(
        [npm, "install", *_INSTALL],
        cwd=_PLACE,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"npm could not install the conformance suite: {done.stderr[-500:]}")


def _is_installed(pins: dict[str, dict[str, str]]) -> bool:
    """Whether the packages are those of the pins; others are parts for this machine alone."""
    try:
        found = msgspec.json.decode((_PLACE / "node_modules" / ".package-lock.json").read_bytes())
    except FileNotFoundError:
        return False
    there = {
        name.removeprefix("node_modules/"): {
            "version": each["version"],
            "integrity": each["integrity"],
        }
        for name, each in found["packages"].items()
        if not each.get("optional")
    }
    return there == pins


def run_suite(url: str, report: Path) -> Findings:
    """Return what the suite finds of the server at this URL.

    Some of its tests are of times that are short for a busy machine: these get several tries.
    """
    place = installed_suite()
    done = subprocess.run(
        [
            *("node", "node_modules/vitest/vitest.mjs", "run", "suite.test.mjs"),
            *("--reporter=json", f"--outputFile={report}"),
            *("--testTimeout=120000", "--retry=5", "--no-file-parallelism"),
        ],
        cwd=place,
        env={**os.environ, "STREAMS_URL": url},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert report.exists(), done.stdout[-5000:] + done.stderr[-5000:]
    return _findings(msgspec.json.decode(report.read_bytes()))


def _findings(report: dict[str, Any]) -> Findings:
    tests = [each for file in report["testResults"] for each in file["assertionResults"]]
    names: dict[str, set[str]] = {}
    for each in tests:
        names.setdefault(each["status"], set()).add(each["fullName"])
    failed = {
        each["fullName"]: "\n".join(each["failureMessages"])
        for each in tests
        if each["status"] == "failed"
    }
    skipped = names.get("skipped", set()) | names.get("pending", set())
    return Findings(frozenset(names.get("passed", ())), failed, frozenset(skipped))
