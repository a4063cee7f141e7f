"""The day and the commit of a measurement or a test run."""

import subprocess
from datetime import UTC, datetime
from pathlib import Path

import msgspec

ROOT = Path(__file__).parents[1]


class Run(msgspec.Struct, frozen=True):
    """The day and the commit of a run."""

    day: str
    commit: str

    def __str__(self) -> str:
        return f"{self.day}, `{self.commit}`"


def this_run() -> Run:
    """Return the day and the commit of this run."""
    found = subprocess.run(
        ["git", "-C", ROOT, "rev-parse", "--short=8", "HEAD"],  # noqa: S607 # The git of the PATH.
        capture_output=True,
        text=True,
        check=False,
    )
    return Run(datetime.now(UTC).date().isoformat(), found.stdout.strip() or "unknown")
