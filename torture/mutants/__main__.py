"""`make mutants`: try mutants, and add the outcomes to torture/mutants.json.

python -m torture.mutants quick    the next mutants, on quick tests in plain Python
python -m torture.mutants core     the survivors, on quick tests with the core
python -m torture.mutants rest     the survivors, on all tests of a few seconds, with the core

STRANDLINE_MUTANTS_AGAIN=survivors has `quick` begin with the survivors of earlier runs.
"""

import os
import sys

import pytest

from torture.mutants.sample import Sample

#: Tests of what the rooms do; tests that read the sources cannot notice a mutant.
_TESTS = (
    *("tests/conformance", "tests/groups", "tests/log", "tests/model", "tests/processes"),
    *("tests/subscriptions", "tests/testing", "tests/triggers", "tests/typed", "tests/values"),
    *("tests/views", "tests/writes", "tests/cli", "tests/tiering", "tests/scans", "tests/moves"),
    *("tests/core", "tests/server", "tests/stores/remote", "tests/durable_streams"),
    *("tests/test_faces.py", "tests/test_locks.py", "tests/test_notebooks.py"),
    *("tests/test_telemetry.py", "tests/test_growth.py", "tests/test_public_names.py"),
    *("tests/test_clock.py", "tests/test_newcomers.py", "tests/test_opening.py"),
    *("tests/test_wrong_calls.py", "tests/test_points_in_time.py", "tests/test_active_threads.py"),
)
_QUICK = "not slow and not heavy"
_STAGES = {"quick": _QUICK, "core": _QUICK, "rest": "not heavy"}


class Trials:
    """A plugin of pytest that tries mutants on the tests it has collected."""

    def __init__(self, stage: str) -> None:
        self._stage = stage

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Keep hypothesis from storing examples: what fails with a mutant need not fail later."""
        from hypothesis import settings  # noqa: PLC0415 # pytest rewrites it first.

        normal = settings.get_profile("strandline")
        settings.register_profile("mutants", parent=normal, database=None)
        settings.load_profile("mutants")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Try mutants until the count is full or the time is over."""
        items = {item.nodeid: item for item in session.items}
        seconds = float(os.environ.get("STRANDLINE_TORTURE_SECONDS") or "inf")
        again = os.environ.get("STRANDLINE_MUTANTS_AGAIN") == "survivors"
        Sample(self._stage, items, again=again).run(seconds)
        return True


def main(stage: str) -> int:
    """Collect the tests once; each mutant gets a copy of this process."""
    marks = ["-m", _STAGES[stage], "-n0", "-q", "--timeout=0"]
    return pytest.main([*marks, *_TESTS], plugins=[Trials(stage)])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
