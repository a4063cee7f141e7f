"""The command that measures."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Annotated

import typer

from strandline.cli.command import command
from strandline.cli.options import Json
from strandline.cli.screen import progress, show_json, show_table
from strandline.clock import SystemClock
from strandline.io import Io, SystemIo
from strandline.values import InvalidError

_MEASUREMENTS = 5


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
        float, typer.Option(metavar="S", min=0.001, help="How long to take for each.")
    ] = 1.0,
    full: Annotated[
        bool, typer.Option("--full", help="Run the project's benchmarks, in a checkout.")
    ] = False,
    json: Json = False,
) -> None:
    """Measure a log on this disk: appending written and durable, and replaying.

    It makes a log in a directory of its own under --path, and removes it. These are
    rates of one thread for one event of about 200 bytes, to compare disks and machines
    by. The project's own comparison with other stores is `make bench` in a checkout of
    it, which --full runs.
    """
    if full:
        if json:
            raise InvalidError("--full writes its figures to benchmarks/results.json")
        _run_benchmarks()
        return
    from strandline.cli.measuring import measure  # noqa: PLC0415 Takes long to import.
    from strandline.opening import open_log, url_in  # noqa: PLC0415 The same.

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
    from strandline.cli.measuring import checkout  # noqa: PLC0415 See above.

    if checkout() is None:
        raise InvalidError(
            "the project's benchmarks are in its repository: clone it, and run make bench there"
        )
    done = subprocess.run([sys.executable, "-m", "benchmarks"], check=False)
    if done.returncode:
        raise typer.Exit(done.returncode)


@contextlib.contextmanager
def _scratch(path: str) -> Iterator[str]:
    """Lend a directory that is gone afterwards, with all that is in it."""
    io = SystemIo()
    folder = os.path.join(os.path.abspath(path), f"strandline-bench-{SystemClock().new_id()}")
    try:
        io.mkdir(folder)
    except OSError as error:
        raise InvalidError("nothing can be made here", path=path, reason=error.strerror) from error
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
