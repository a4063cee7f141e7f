"""Starts the Spark driver, kills it in the middle, and starts it again."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from examples.demo.pipeline_files import JOINING, READY, SPARK_LOG
from examples.demo.plan import Plan

#: A Python has ten seconds to start, says Spark, and no setting says otherwise.
_TOO_BUSY = "Python worker failed to connect back"
_GIVEN_UP_MAX = 3
_LINES = 120


class SparkDriver:
    """One process group with the driver and its Java in it."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._output: IO[bytes] = open(plan.path(SPARK_LOG), "ab")  # noqa: SIM115 # As long as it.
        self._process = self._start()
        self.started_at = [time.monotonic()]
        self.killed_at: float | None = None
        #: Micro-batches that had begun and were not noted as done when it was killed.
        self.unfinished: list[str] = []
        #: How often Spark gave up on a machine too busy for it, and was started again.
        self.given_up = 0

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "examples.demo.pipeline", self._plan.folder]
        return subprocess.Popen(
            command,
            cwd=Path(__file__).parents[2],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._output,
            start_new_session=True,
        )

    def kill(self) -> None:
        """SIGKILL the driver and its Java, at once, and begin again."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self.killed_at = time.monotonic()
        begun, done = (self._checkpointed(name) for name in ("offsets", "commits"))
        self.unfinished = sorted(begun - done)
        self._process = self._start()
        self.started_at.append(time.monotonic())

    def _checkpointed(self, name: str) -> set[str]:
        found = os.listdir(self._plan.path("checkpoints", JOINING, name))
        return {each for each in found if each.isdigit()}

    def is_ready(self) -> bool:
        """Whether it reads; RuntimeError if it never will."""
        return os.path.exists(self._plan.path(READY)) or self.is_done()

    def is_done(self) -> bool:
        """Whether it has ended; RuntimeError with what it said if that was not well."""
        code = self._process.poll()
        if code:
            with open(self._plan.path(SPARK_LOG), encoding="utf-8", errors="replace") as file:
                said = "".join(file.readlines()[-_LINES:])
            if _TOO_BUSY not in said or self.given_up == _GIVEN_UP_MAX:
                raise RuntimeError(f"the Spark driver ended with {code}:\n{said}")
            self.given_up += 1
            self._process = self._start()
        return code == 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._output.close()
