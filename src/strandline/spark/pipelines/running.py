"""Runs a pipeline from its folder, and reports how it went."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import msgspec

from strandline.io import SystemIo
from strandline.spark.causes import root_cause
from strandline.spark.log_urls import spark_url
from strandline.spark.pipelines.order import Order, OutputLine
from strandline.spark.pipelines.specification import load_specification
from strandline.values import UnavailableError
from strandline.values.arguments import check_flag, check_instance, check_path

#: In a pipeline's folder: tables, their catalogue, and what Spark printed.
SPARK_FOLDER: Final = "spark"
_LOG: Final = "last-run.log"
_PROGRAM: Final = "strandline.spark.pipelines.program"
_FAILED: Final = re.compile("failed", re.IGNORECASE)
_RETRIES: Final = re.compile(r" more than .*\Z")


@dataclass(frozen=True, slots=True)
class PipelineReport:
    """The result of a complete run."""

    events: tuple[str, ...]
    #: Spark's output, which has stack traces even after a successful run.
    log: str


def run(
    folder: str | os.PathLike[str],
    *,
    url: str | None = None,
    full_refresh: bool = False,
    dry_run: bool = False,
    master: str = "local[2]",
    progress: Callable[[str], None] | None = None,
) -> PipelineReport:
    """Run the pipeline in this folder once, for all new records, and return.

    `url` is the log for definitions that name none. Tables are stored in the folder.
    `full_refresh` empties tables and reads topics from the start; sinks get all rows again.
    `dry_run` checks the definitions without running them. `progress` is called with each
    step. UnavailableError with Spark's reason if the run fails; fix the cause and run it again.
    InvalidError for a folder without a pipeline.
    """
    spec = load_specification(check_path("folder", folder))
    full_refresh, dry_run = check_flag("full_refresh", full_refresh), check_flag("dry_run", dry_run)
    master, target = check_instance("master", master, str), spark_url(url)
    kept = os.path.join(os.path.dirname(spec.path), SPARK_FOLDER)
    io = SystemIo()
    if not io.exists(kept):
        io.mkdir(kept)
    order = Order(
        folder=kept,
        spec=spec.path,
        catalog=spec.catalog,
        database=spec.database,
        storage=spec.storage,
        configuration=spec.configuration,
        master=master,
        full_refresh=full_refresh,
        dry_run=dry_run,
    )
    log = os.path.join(kept, _LOG)
    events, ending = [], None
    with _program(io, order, {**os.environ, "STRANDLINE_URL": target}, log) as lines:
        for each in lines:
            if each.what != "event":
                ending = each
                continue
            events.append(each.text)
            if progress is not None:
                progress(each.text)
    if ending is None or ending.what == "failed":
        ended = "its process ended early" if ending is None else ending.text
        raise UnavailableError(
            "the pipeline did not complete, fix the cause and run it again",
            reason=_reason(events, ended),
            log=log,
        )
    return PipelineReport(tuple(events), log)


def _reason(events: Sequence[str], ended: str) -> str:
    """Return the cause of each flow that failed, or else Spark's last message.

    If a flow has failed, the last message only refers to earlier ones or repeats them.
    """
    failures = [text for text in events if _FAILED.search(text)]
    causes = [_flow_cause(text) for text in failures] or [root_cause(ended)]
    return "; ".join(dict.fromkeys(causes))


def _flow_cause(text: str) -> str:
    """Return the flow and its cause from `Flow 'x' has FAILED …` and the `Error: …` below it."""
    first, _, rest = text.partition("\n")
    flow = _RETRIES.sub("", first).rstrip(".")
    cause = root_cause(rest.removeprefix("Error: "))
    return f"{flow}: {cause}" if rest.strip() else flow


@contextmanager
def _program(
    io: SystemIo, order: Order, environment: dict[str, str], log: str
) -> Iterator[Iterator[OutputLine]]:
    # The program must not use a classic session of this process.
    own = {name: value for name, value in environment.items() if name not in _NOT_INHERITED}
    stderr = io.open(log, "create")
    try:
        io.truncate(stderr, 0)
        process = subprocess.Popen(  # noqa: S603 # A module of ours.
            [sys.executable, "-m", _PROGRAM, msgspec.json.encode(order).decode()],
            env=own,
            # The program detects by the end of this pipe that this process was killed.
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
        )
    finally:
        io.close(stderr)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield (
            msgspec.json.decode(line, type=OutputLine) for line in process.stdout if _is_ours(line)
        )
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


_NOT_INHERITED: Final = (
    *("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "PYSPARK_GATEWAY_PORT"),
    *("PYSPARK_GATEWAY_SECRET", "SPARK_AUTH_SOCKET_TIMEOUT", "SPARK_BUFFER_SIZE"),
)


def _is_ours(line: bytes) -> bool:
    """Whether a line is output of the program, not of the definitions."""
    return line.startswith(b'{"what":')
