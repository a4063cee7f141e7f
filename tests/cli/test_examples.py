"""Each command's help has examples, which work as written."""

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import strandline as sl
from strandline.cli.app import app
from tests.cli.program import PREPARATION, environment, prepare, ran, run

_SHELL = set("|<>&;$")


def commands(
    group: Any = None, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every command with the words that lead to it."""
    chosen: Any = group or typer.main.get_command(app)
    for name, found in chosen.commands.items():
        if hasattr(found, "commands"):
            yield from commands(found, (*path, name))
        else:
            yield (*path, name), found


COMMANDS = dict(commands())
#: Those on Spark are tried in tests/spark, with one session for all.
HERE = [words for words in COMMANDS if words[0] != "pipeline"]


def examples_of(found: Any) -> list[str]:
    return re.findall(r"^ *\$ (.+)$", found.help, re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize("words", HERE, ids=" ".join)
def test_examples_in_the_help_work(words: tuple[str, ...], orders: str, folder: Path) -> None:
    save_view(folder)
    dead_letter_one(orders)
    lines = examples_of(COMMANDS[words])
    assert lines, "each command has an example"
    assert any(line.split("strandline ")[-1].startswith(" ".join(words)) for line in lines)

    for line in lines:
        if _SHELL & set(line) or not line.startswith("strandline "):
            in_a_shell(line)
        else:
            ran(*shlex.split(line)[1:])


@pytest.mark.slow
def test_what_the_examples_continue_from_is_what_the_page_prepares(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for name, prepared in (("by commands", prepare_by_commands), ("at once", prepare)):
        (folder / name).mkdir()
        monkeypatch.chdir(folder / name)
        prepared()
        with sl.open("file:.strandline/events", mode="read") as log:
            (topic,) = log.topics()
            described = log.describe_topic(topic)
            found.append(
                (
                    (topic.name, described.settings, described.marks),
                    [record.event for record in log.read(topic, 0, 0)],
                )
            )

    assert found[0] == found[1]


def prepare_by_commands() -> None:
    for line in PREPARATION:
        ran(*shlex.split(line)[1:])


def in_a_shell(line: str) -> None:
    done = subprocess.run(
        ["/usr/bin/env", "bash", "-c", f"set -e -o pipefail; {line}"],
        check=False,
        capture_output=True,
        text=True,
        env=environment(),
    )
    # A process that writes to `head` may find it gone.
    assert done.returncode == 0 or ("| head" in line and done.returncode == 141), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_has_help_with_examples_and_json(words: tuple[str, ...]) -> None:
    shown = ran(*words, "--help").stdout

    assert "Examples:" in shown
    assert "--json" in shown
    assert "JSON:" in shown


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_usage_shows_arguments_as_they_are_typed(words: tuple[str, ...]) -> None:
    shown = ran(*words, "--help").stdout

    usage = shown.partition("\n\n")[0]
    assert not set("{}<>") & set(usage)
    assert "[[" not in usage
    assert "list[" not in shown


def test_no_command_is_described_by_half_a_sentence() -> None:
    for words in ((), ("dead-letters",), ("pipeline",)):
        listed = ran(*words, "--help").stdout.partition("Commands:")[2]
        assert listed
        assert "..." not in listed


def test_the_program_without_a_command_shows_its_help() -> None:
    done = run()

    assert done.code == 2
    assert "Commands:" in done.stdout + done.stderr


def save_view(folder: Path) -> None:
    """Leave the snapshot that the examples of `views` look at."""
    snapshot = folder / "totals.snapshot"
    with (
        sl.open("file:.strandline/events") as log,
        sl.LiveView(log, "orders", Totals(), snapshot=snapshot) as totals,
    ):
        totals.reconcile([0])
        totals.wait_ready()


def dead_letter_one(topic: str) -> None:
    """Leave the dead letter that the examples of `dead-letters` look at."""
    with (
        sl.open("file:.strandline/events") as log,
        log.consumer(topic, "billing", deliveries_max=1) as billing,
    ):
        delivery = billing.next()
        assert delivery is not None
        assert billing.nack(delivery.record, reason="no such customer")


class Totals(sl.View[list[int]]):
    def initial(self, partition: int) -> list[int]:
        return [0 * partition]

    def apply(self, state: list[int], record: sl.Record) -> None:
        state[0] += record.payload.get("total", 0)

    def encode(self, state: list[int]) -> bytes:
        return str(state[0]).encode()

    def decode(self, stored: bytes) -> list[int]:
        return [int(stored)]
