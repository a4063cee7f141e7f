"""Runs the tortures on all cores, each to its full count or for its share of the time.

Shows progress, prints the counts and adds them to those of earlier runs. The first failure ends
a torture, and its seed is printed.
"""

import gc
import multiprocessing
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from strandline._core import IS_COMPILED
from tests import fuzzing
from tests.core import fuzz
from tests.log import sqlite_bits, sqlite_rows
from tests.log.files import crashes, damaged, replaced
from tests.model import coordinator_schedules
from tests.processes import catalogue_kills, joins, kills, outboxes, trigger_kills
from tests.spark import sink_kills
from tests.spark.killed_driver import POINTS
from tests.subscriptions import joining
from tests.tiering import tier_kills
from tests.tiering.delta import equality
from tests.typed import paired_runs
from tests.typed import schedules as typed_schedules
from tests.views import schedules as view_schedules
from torture import (
    hostile,
    interrupts,
    jetstream,
    kafka,
    moves,
    postgres,
    predicates,
    processes,
    queues,
    servers,
    sinks,
)
from torture.counts import AlreadyCountingError, Counts, counting

#: How often progress is printed where no progress bar is shown.
_PROGRESS_INTERVAL_S = 60.0
_SAVE_INTERVAL_S = 1.0
# Syncing costs nothing in memory, and no torture cuts the power: see `_prepare`.
_MEMORY = "/dev/shm"  # noqa: S108 # A folder in it is made for each run.
_FREE_MIN = 8 << 30


class Torture(NamedTuple):
    """The name of a count, the function that runs one seed, and how many seeds make it full."""

    name: str
    run: Callable[[int], None]
    seeds: int


TORTURES = (
    Torture(
        f"core with {fuzz.INPUTS_PER_SEED} damaged inputs each",
        fuzz.run,
        10_000_000 // fuzz.INPUTS_PER_SEED if IS_COMPILED else 0,
    ),
    Torture(
        f"fuzz of each decoder with {fuzzing.INPUTS_PER_SEED} guided inputs",
        fuzzing.run,
        5_000_000 // fuzzing.INPUTS_PER_SEED,
    ),
    Torture("coordinator schedules", coordinator_schedules.run, 100_000),
    Torture("view schedules", view_schedules.run, 10_000),
    Torture("typed schedules", typed_schedules.run, 50_000),
    Torture("two tenants in one log", paired_runs.run, 400),
    Torture(
        f"file log crashes, up to {crashes.IMAGES_PER_SEED} images each",
        crashes.run,
        107_600,  # Ten million images: a seed has 93 on average.
    ),
    Torture(
        "file log crashes of few operations",
        crashes.run_small,
        crashes.SMALL_KINDS * crashes.SMALL_STRIDE,
    ),
    Torture(f"file log damage, {damaged.BITS_PER_SEED} bits each", damaged.run, damaged.seeds()),
    Torture("file log with damaged sectors and files", damaged.run_files, 8),
    Torture("file logs with replaced, stale and damaged files, identities", replaced.run, 500),
    Torture(
        f"SQLite log damage, {sqlite_bits.BITS_PER_SEED} bits each",
        sqlite_bits.run,
        20_000 // sqlite_bits.BITS_PER_SEED,
    ),
    Torture("SQLite logs with rows missing, moved and changed", sqlite_rows.run, 100),
    Torture("sweeps of faults and kills", processes.sweep, processes.SWEEPS),
    Torture(
        f"logs with {kills.KILLS_PER_LOG} kills", processes.kill, 100_000 // kills.KILLS_PER_LOG
    ),
    Torture("contention of writers", processes.contend, 1_000),
    Torture(
        f"logs with {joins.JOINS_PER_LOG} joins", processes.join, 10_000 // joins.JOINS_PER_LOG
    ),
    Torture("readers that join, leave and reassign in threads", joining.run, 1_000),
    Torture("logs with killed consumers", processes.kill_consumers, 200),
    Torture("groups with killed and stopped members", processes.disturb_groups, 500),
    Torture("take-overs of partitions", processes.take_over, processes.TAKEOVERS),
    Torture("hostile values", hostile.attack_all, hostile.SEEDS),
    Torture(
        f"hostile arguments of commands, {hostile.COMMANDS_PER_SEED} each",
        hostile.attack_commands,
        hostile.COMMAND_SEEDS,
    ),
    Torture(f"catalogue with {catalogue_kills.KILLS_PER_LOG} kills", processes.kill_tiering, 1_000),
    Torture("tiering that is killed at each point", tier_kills.run, 2 * 120),
    Torture("equal rows while tiering is killed", equality.kill_movers, 100),
    Torture("restored copies", processes.restore, 200),
    Torture(f"outboxes with {outboxes.KILLS_PER_LOG} kills", processes.share_transactions, 100),
    Torture(
        f"PostgreSQL outboxes of {postgres.WRITERS} writers with {postgres.ROWS_PER_WRITER} rows",
        postgres.share_transactions,
        -(-1_000_000 // (postgres.WRITERS * postgres.ROWS_PER_WRITER)),
    ),
    Torture(f"PostgreSQL outboxes with {postgres.KILLS_PER_LOG} kills", postgres.kill_blocks, 50),
    Torture(f"PostgreSQL servers with {postgres.KILLS_PER_SERVER} kills", postgres.kill_server, 25),
    Torture(f"PostgreSQL writers with {postgres.KILLS_PER_LOG} kills", postgres.kill_writers, 25),
    Torture(f"NATS servers with {jetstream.KILLS_PER_SERVER} kills", jetstream.kill_server, 15),
    Torture(f"NATS clusters with {jetstream.KILLS_PER_CLUSTER} kills", jetstream.kill_cluster, 20),
    Torture(f"Kafka brokers with {kafka.KILLS_PER_SERVER} kills", kafka.kill_server, 8),
    Torture(f"Kafka writers with {kafka.KILLS_OF_WRITERS} kills", kafka.kill_writers, 10),
    Torture(f"Kafka clusters with {kafka.KILLS_PER_CLUSTER} kills", kafka.kill_cluster, 6),
    Torture(f"served logs with {servers.KILLS_PER_SERVER} kills", servers.kill_server, 15),
    Torture("random runs of a work queue", queues.run_queue, 500),
    Torture("random runs of a consumer with delayed records", queues.run_delayed, 500),
    Torture(f"copies with {moves.KILLS_PER_LOG} kills", moves.kill_copying, 50),
    Torture(f"triggers with {trigger_kills.KILLS_PER_LOG} kills", processes.kill_triggers, 100),
    Torture("records that kill their process", processes.poison, 120),
    Torture("interrupts of public calls", interrupts.interrupt_calls, interrupts.INTERRUPTS),
    Torture(
        f"logs with {interrupts.PROGRAMS_PER_SEED} interrupted programs",
        interrupts.interrupt_programs,
        interrupts.PROGRAMS,
    ),
    Torture("sweeps of Spark sinks", sinks.sweep_sink, sinks.SWEEPS),
    Torture(
        f"seeds of {predicates.SUPPORTED_PER_SEED} predicates against Spark",
        predicates.compare,
        predicates.SEEDS,
    ),
    Torture(f"Spark sinks with {sink_kills.KILLS_PER_LOG} kills", sinks.kill_sink, 100),
    Torture(
        f"Spark queries with {len(POINTS)} killed drivers",
        sinks.kill_drivers,
        -(-300 // len(POINTS)),
    ),
)


def main() -> int:
    """Return how many tortures found something."""
    if seed := os.environ.get("STRANDLINE_TORTURE_SEED"):
        return _run(seed, None)
    try:
        with counting() as counts:
            return _run(None, counts)
    except AlreadyCountingError as error:
        print(error)
        return 1


def _run(seed: str | None, counts: Counts | None) -> int:
    seconds = float(os.environ.get("STRANDLINE_TORTURE_SECONDS") or 0)
    only = os.environ.get("STRANDLINE_TORTURE_ONLY", "")
    chosen = [torture for torture in TORTURES if only in torture.name]
    if not chosen:
        there = "; ".join(torture.name for torture in TORTURES)
        print(f"no torture has {only!r} in its name; there are: {there}")
        return 1
    form = f"about {seconds:.0f} s" if seconds else "the full counts: hours"
    print(f"seed {seed}, not added to the counts, {form}" if seed else f"counted, {form}")
    share_s = seconds / len(chosen)
    # Spawned, not forked: a seed starts threads and servers of its own.
    context = multiprocessing.get_context("spawn")
    log = Path(tempfile.gettempdir(), "torture.log")
    print(f"standard error of the processes: {log}", flush=True)
    with (
        tempfile.TemporaryDirectory(prefix="torture-", dir=_memory()) as folder,
        ProcessPoolExecutor(
            os.cpu_count(), mp_context=context, initializer=_prepare, initargs=(log, folder)
        ) as pool,
    ):
        return sum(
            not _torture(pool, torture, _seeds(torture, seed, counts), share_s, counts)
            for torture in chosen
        )


def _seeds(torture: Torture, seed: str | None, counts: Counts | None) -> range:
    """Return the seeds to run: all from the given one, else those after the last counted one."""
    if counts is None:
        return range(int(seed or 0), int(seed or 0) + torture.seeds)
    return counts.seeds(torture.name, torture.seeds, time.time_ns() % 10**9)


def _memory() -> str | None:
    is_there = os.path.isdir(_MEMORY) and shutil.disk_usage(_MEMORY).free > _FREE_MIN
    return _MEMORY if is_there else None


def _prepare(log: Path, folder: str) -> None:
    """Prepare a process of the pool: its files are made in a folder in memory.

    What it and its children print about injected failures is written to a file. The garbage
    collector leaves out what was imported: visiting that took a tenth of the time.
    """
    gc.freeze()
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, 2)
    os.close(descriptor)


def _torture(
    pool: ProcessPoolExecutor,
    torture: Torture,
    seeds: range,
    share_s: float,
    counts: Counts | None,
) -> bool:
    """Run seeds until the count is full or the share of the time is used; False if one failed."""
    failures = []
    passed = 0
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    errors = Console(stderr=True)
    with Progress(
        *columns,
        TimeRemainingColumn(),
        console=errors,
        transient=True,
        disable=not errors.is_terminal,
    ) as bars:
        task = bars.add_task(torture.name, total=len(seeds))
        printed_at = saved_at = time.monotonic()
        for ran, error in _outcomes(pool, torture, seeds, share_s):
            if counts is not None:
                counts.add(torture.name, ran, has_passed=error is None)
            if error is not None:
                failures.append(f"seed {ran}: {error!r}")
            else:
                passed += 1
                bars.update(task, completed=passed)
                if not errors.is_terminal:
                    printed_at = _print_progress(torture, passed, printed_at)
            if counts is not None and time.monotonic() > saved_at + _SAVE_INTERVAL_S:
                counts.save()
                saved_at = time.monotonic()
    if counts is not None:
        counts.save()
    print(f"{torture.name}: {passed} passed, {len(failures)} failed", flush=True)
    for failure in failures:
        print(f"  {failure}", flush=True)
    return not failures


def _print_progress(torture: Torture, passed: int, printed_at: float) -> float:
    """Print how many seeds have passed, if it is due; return when that was last done."""
    now = time.monotonic()
    if now < printed_at + _PROGRESS_INTERVAL_S:
        return printed_at
    print(f"{torture.name}: {passed} of {torture.seeds} so far", flush=True)
    return now


def _outcomes(
    pool: ProcessPoolExecutor, torture: Torture, seeds: range, share_s: float
) -> Iterator[tuple[int, BaseException | None]]:
    """Yield each seed that ran and its error; none starts after an error, or when time is up."""
    end = time.monotonic() + share_s if share_s else float("inf")
    waiting = iter(seeds)
    running: dict[Future[None], int] = {}
    failed = False
    while True:
        while not failed and time.monotonic() < end and len(running) < 2 * (os.cpu_count() or 1):
            if (seed := next(waiting, None)) is None:
                break
            running[pool.submit(torture.run, seed)] = seed
        if not running:
            return
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            error = future.exception()
            failed = failed or error is not None
            yield running.pop(future), error
