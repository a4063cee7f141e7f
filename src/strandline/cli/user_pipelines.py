"""A user's own pipelines, as commands."""

from typing import Annotated

import typer

from strandline.cli.command import command
from strandline.cli.options import Json, Url
from strandline.cli.screen import note, printable, show, show_json
from strandline.cli.spark_session import LOCAL, Master


@command(
    "init",
    examples="$ strandline pipeline init shop",
    answers="{specification}: the path of the pipeline's YAML.",
)
def init(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="A new or empty folder.")],
    *,
    json: Json = False,
) -> None:
    """Write an example pipeline: a table of a topic, a view, and a sink into a topic."""
    from strandline.spark import pipelines  # noqa: PLC0415 Takes long to import.

    path = pipelines.init(folder)
    if json:
        show_json({"specification": path})
    else:
        show(f"{path} written; strandline pipeline run {folder}")


@command(
    "run",
    examples="""$ strandline pipeline init bakery
        $ strandline pipeline run bakery --dry-run""",
    answers="{events, log}: Spark's events of the run, and the file with all that it printed.",
)
def run(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="Holds spark-pipeline.yml.")],
    *,
    url: Url = None,
    full_refresh: Annotated[
        bool, typer.Option("--full-refresh", help="Begin again; sinks append all rows once more.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only check the definitions.")] = False,
    master: Master = LOCAL,
    json: Json = False,
) -> None:
    """Run a Spark Declarative Pipeline once, with new records since its last run."""
    from strandline.spark import pipelines  # noqa: PLC0415 Takes long to import.

    report = pipelines.run(
        folder,
        url=url,
        full_refresh=full_refresh,
        dry_run=dry_run,
        master=master,
        progress=lambda event: note(printable(event)),
    )
    if json:
        show_json({"events": list(report.events), "log": report.log})
    else:
        show(f"{folder} is complete")
