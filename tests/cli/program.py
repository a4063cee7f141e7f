"""The program as tests run it: in this process, or as a separate process."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
from typer.testing import CliRunner

import strandline as sl
from strandline.cli.app import app

PROGRAM = str(Path(sys.executable).with_name("strandline"))

#: What the examples continue from; docs/reference/cli.md has it, too.
PREPARATION = (
    """strandline create orders""",
    """strandline append orders '{"id": 1, "total": 20}' --kind order.created --key c-7""",
    """strandline append orders '{"id": 2, "total": 35}' --kind order.created --key c-9""",
    """strandline append orders '{"id": 3, "total": 12}' --kind order.created --key c-9""",
    """strandline append orders '{"id": 1}' '{"id": 3}' --kind order.paid --key c-9""",
)


def prepare() -> None:
    """Leave in this folder what PREPARATION leaves."""
    with sl.open("file:.strandline/events") as log:
        log.create_topic("orders")
        for order, total, customer in ((1, 20, "c-7"), (2, 35, "c-9"), (3, 12, "c-9")):
            created = sl.Event("order.created", {"id": order, "total": total}, key=customer)
            log.append("orders", created)
        paid = [sl.Event("order.paid", {"id": order}, key="c-9") for order in (1, 3)]
        log.append_many("orders", paid)


class Ran:
    """The result of one run."""

    def __init__(self, code: int, stdout: str, stderr: str) -> None:
        self.code = code
        self.stdout = stdout
        self.stderr = stderr

    @property
    def document(self) -> Any:
        """The one JSON document on standard output."""
        return msgspec.json.decode(self.stdout)

    @property
    def lines(self) -> list[Any]:
        """The lines of JSON on standard output."""
        return [msgspec.json.decode(line) for line in self.stdout.splitlines()]


def run(*arguments: str, stdin: str | bytes | None = None) -> Ran:
    """Run the program in this process."""
    done = CliRunner().invoke(app, [str(each) for each in arguments], input=stdin)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Ran(done.exit_code, done.stdout, done.stderr)


def ran(*arguments: str, stdin: str | bytes | None = None) -> Ran:
    """Run the program in this process; it must succeed."""
    done = run(*arguments, stdin=stdin)
    assert done.code == 0, done.stderr or done.stdout
    return done


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a process in which `strandline` is found."""
    path = f"{Path(PROGRAM).parent}{os.pathsep}{os.environ['PATH']}"
    kept = {name: each for name, each in os.environ.items() if not name.startswith("STRANDLINE_")}
    return {**kept, "PATH": path, **more}


def process(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the program as a process."""
    return subprocess.run(
        [PROGRAM, *arguments],
        check=False,
        capture_output=True,
        text=True,
        env=environment(),
        **options,
    )
