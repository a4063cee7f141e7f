"""The command that measures a log's speed."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from strandline.cli.command import command
from strandline.cli.options import Json
from strandline.cli.screen import progress, show_json, show_table
from strandline.clock import Clock, SystemClock
from strandline.io import Io, SystemIo
from strandline.values import Durability, Event, InvalidError

if TYPE_CHECKING:
    from strandline.log import Log

_MEASUREMENTS = 5
_PAYLOAD = {"id": 17, "customer": "c-9", "lines": [{"sku": "a-1", "count": 2, "cents": 1990}] * 3}
_MANY = 1000


@command(
    "bench",
    examples="""$ strandline bench --seconds 0.05
        $ strandline bench --backend sqlite --seconds 0.05 --json""",
    answers="{path, backend, measured: [{name, unit, amount, seconds, per_second}, …]}.",
)
def bench(
    path: Annotated[
        str, typer.Option(metavar="PATH", help="A directory on the disk to measure.")
    ] = ".",
    backend: Annotated[
        str, typer.Option(metavar="SCHEME", help="file, sqlite or memory.")
    ] = "file",
    seconds: Annotated[
        float, typer.Option(metavar="S", min=0.001, help="How long each measurement takes.")
    ] = 1.0,
    full: Annotated[
        bool, typer.Option("--full", help="Run the project's benchmarks, in a checkout.")
    ] = False,
    json: Json = False,
) -> None:
    """Measure a log on this disk: appending written and durable, and replaying.

    It makes a log in a temporary directory under --path. The results are rates of one thread
    with one event of about 200 bytes, for comparing disks and machines. The project's own
    comparison with other stores is `make bench` in a checkout of it, which --full runs.
    """
    if full:
        if json:
            raise InvalidError("--full writes its figures to benchmarks/results.json")
        _run_benchmarks()
        return
    from strandline.opening import open_log, url_in  # noqa: PLC0415 Takes long to import.

    url_in(backend, path)

    clock = SystemClock()
    with (
        _scratch(path) as folder,
        progress("measuring", _MEASUREMENTS) as bar,
        open_log(url_in(backend, folder)) as log,
    ):
        found = []
        for each in measure(log, clock, seconds):
            found.append(each)
            bar.advance()
    if json:
        measured = [{**each._asdict(), "per_second": each.per_second} for each in found]
        show_json({"path": path, "backend": backend, "measured": measured})
    else:
        rows = [(each.name, round(each.per_second), each.unit + "/s") for each in found]
        show_table(("measured", "rate", "unit"), rows)


def _run_benchmarks() -> None:
    if not _is_checkout():
        raise InvalidError(
            "the project's benchmarks are in its repository: clone it, and run make bench there"
        )
    done = subprocess.run([sys.executable, "-m", "benchmarks"], check=False)
    if done.returncode:
        raise typer.Exit(done.returncode)


@contextlib.contextmanager
def _scratch(path: str) -> Iterator[str]:
    """Yield a temporary directory, removed afterwards with all its content."""
    io = SystemIo()
    folder = os.path.join(os.path.abspath(path), f"strandline-bench-{SystemClock().new_id()}")
    try:
        io.mkdir(folder)
    except OSError as error:
        raise InvalidError("cannot create files here", path=path, reason=error.strerror) from error
    try:
        yield folder
    finally:
        _remove(io, folder)


def _remove(io: Io, path: str) -> None:
    for name in io.list(path):
        inner = os.path.join(path, name)
        if io.stat(inner).is_directory:
            _remove(io, inner)
        else:
            io.unlink(inner)
    io.rmdir(path)


class Measured(NamedTuple):
    """The result of one measurement."""

    name: str
    unit: str
    amount: int
    seconds: float

    @property
    def per_second(self) -> float:
        """The rate per second."""
        return self.amount / self.seconds


def measure(log: "Log", clock: Clock, seconds: float) -> Iterator[Measured]:
    """Yield each measurement; each takes about `seconds`."""
    log.create_topic("bench")
    event = Event("order.created", _PAYLOAD, key="c-9")
    many = [event] * _MANY

    def written() -> int:
        log.append("bench", event)
        return 1

    def durable() -> int:
        log.append("bench", event, durability=Durability.DURABLE)
        return 1

    def batched() -> int:
        log.append_many("bench", many)
        return _MANY

    yield _run("append, written", written, clock, seconds)
    yield _run("append, durable", durable, clock, seconds)
    yield _run("append_many of 1,000, written", batched, clock, seconds)
    end = log.marks("bench", 0).high

    def replayed() -> int:
        return sum(1 for _ in log.read("bench", 0, 0, end))

    def columns() -> int:
        return sum(batch.num_rows for batch in log.read_batches("bench", 0, 0, end))

    yield _run("replay as records", replayed, clock, seconds)
    yield _run("replay as Arrow", columns, clock, seconds)


def _run(name: str, act: Callable[[], int], clock: Clock, seconds: float) -> Measured:
    act()
    count, start = 0, clock.monotonic()
    while (spent := clock.monotonic() - start) < seconds or not count:
        count += act()
    return Measured(name, "events", count, max(spent, 1e-9))


def _is_checkout() -> bool:
    """Whether the current directory is a checkout of the project."""
    here = os.getcwd()
    wanted = (os.path.join(here, "benchmarks", "__main__.py"), os.path.join(here, "src"))
    return all(map(SystemIo().exists, wanted))
