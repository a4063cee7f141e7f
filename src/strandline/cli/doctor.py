"""The command that checks the machine."""

from typing import Annotated

import typer

from strandline.cli.command import command
from strandline.cli.exit_codes import ExitCode
from strandline.cli.options import Json
from strandline.cli.screen import show, show_json, show_table


@command(
    "doctor",
    examples="""$ strandline doctor
        $ strandline doctor --path /var --json""",
    answers="{is_healthy, checks: [{check, verdict, found, advice}, …]}; a verdict is ok, absent, "
    "warning or failed.",
)
def doctor(
    url: Annotated[
        str | None,
        typer.Argument(metavar="[URL]", help="A log on a server: checks that server, too."),
    ] = None,
    *,
    path: Annotated[str, typer.Option(metavar="PATH", help="Where the log is, or will be.")] = ".",
    json: Json = False,
) -> None:
    """Check the requirements of strandline, with advice. Exits with 1 if anything fails.

    Python, pyarrow, checksums, SQLite, the file system and its free space, inotify's
    limits, Java, Spark and the other extras. With a URL also the server: its version and
    settings, the durability of an append and the reason, the permissions of the user.
    """
    from strandline.cli import checkup  # noqa: PLC0415 Takes long to import.

    findings = list(checkup.look(checkup.place_at(path)))
    if url is not None:
        findings += checkup.look_at_server(url)
    is_healthy = checkup.is_healthy(findings)
    if json:
        show_json({"is_healthy": is_healthy, "checks": [each._asdict() for each in findings]})
    else:
        show_table(
            ("check", "verdict", "found"),
            [(each.check, each.verdict.value, each.found) for each in findings],
        )
        for each in findings:
            if each.advice:
                show(f"{each.check}: {each.advice}")
    if not is_healthy:
        raise typer.Exit(ExitCode.FAILED_CHECK)
