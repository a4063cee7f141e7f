"""The program, put together from its commands."""

from typing import Annotated, Final

import typer

import strandline
from strandline.cli import (
    appending,
    bench,
    changing,
    consoles,
    consumers,
    copying,
    dead_letters,
    doctor,
    erasing,
    pipeline,
    quotas,
    reading,
    serving,
    snapshots,
    tiers,
    tokens,
    topics,
    transfer,
    verifying,
)
from strandline.cli.command import new_app
from strandline.cli.screen import show

app: Final = new_app(
    "A durable, replayable event log.\n\n"
    "Each command has --help with examples, and --json for programs. --url names the log "
    "it is about; without it the variable STRANDLINE_URL does, and without that it is "
    "file:.strandline/events."
)


def _show_version(wanted: bool) -> None:
    if wanted:
        show(f"strandline {strandline.__version__}")
        raise typer.Exit


@app.callback()
def _program(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass


# A further group of commands is added with app.add_typer(its_app, name="…").
_COMMANDS = (
    *(topics.topics, topics.describe, topics.create, topics.trim),
    *(changing.add_partitions, changing.declare, changing.retention, changing.drop),
    *(quotas.quota, erasing.erase),
    *(appending.append, reading.read, reading.tail),
    *(consumers.consumers, consumers.ack, consumers.seek),
    *(consumers.lag, consumers.forget, consumers.holders),
    *(verifying.verify, tiers.tier, snapshots.views),
    *(transfer.export, transfer.import_, copying.backup, copying.restore, copying.copy),
    *(doctor.doctor, bench.bench, serving.serve, consoles.console),
)
for _command in _COMMANDS:
    _command.add_to(app)
app.add_typer(dead_letters.app, name="dead-letters")
app.add_typer(pipeline.app, name="pipeline")
app.add_typer(tokens.app, name="token")
