"""The command that opens the console."""

import webbrowser
from typing import Annotated

import typer

from strandline.cli.command import command
from strandline.cli.options import Json, existing
from strandline.cli.screen import flush, note, show, show_json
from strandline.cli.serving import log_to_stderr, server_settings
from strandline.values import Mode


@command(
    "console",
    examples="""$ timeout 2 strandline console --no-browser || true
        $ timeout 2 strandline console --no-browser --read-only --json || true""",
    answers="a line once it is ready: {link, log}; for a server elsewhere {link}.",
)
def console(
    url: Annotated[
        str | None,
        typer.Argument(metavar="[URL]", help="The log, or the address of a running server."),
    ] = None,
    *,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the link in a browser.")
    ] = True,
    port: Annotated[int, typer.Option(metavar="N", min=0, max=65535, help="0: any free one.")] = 0,
    read_only: Annotated[bool, typer.Option("--read-only", help="Open the log read-only.")] = False,
    json: Json = False,
) -> None:
    """Open a log's console in the browser, until Ctrl-C; no server needs to run.

    It is served on loopback to the one browser that opens the link, which works once.
    Without a URL it is the log of STRANDLINE_URL, and without that file:.strandline/events.
    For a server that runs elsewhere, opens that server's own console.
    """
    from strandline.opening import is_served  # noqa: PLC0415 Takes long to import.

    if url is not None and is_served(url):
        _show_link(
            f"{url.rstrip('/').removesuffix('/console')}/console/", {}, browser=browser, json=json
        )
    else:
        _serve(url, port, read_only=read_only, browser=browser, json=json)


def _serve(url: str | None, port: int, *, read_only: bool, browser: bool, json: bool) -> None:
    settings = server_settings()
    from strandline.server.running import Address, RunningServer  # noqa: PLC0415 An extra.

    log_to_stderr()
    with existing(url, Mode.READ if read_only else Mode.WRITE) as log:
        server = RunningServer(log, Address(port=port), settings, for_one=True)

        def ready(_: str) -> None:
            about = {"log": str(log.id)}
            _show_link(server.console_link(), about, browser=browser, json=json)

        server.run(ready)


def _show_link(link: str, about: dict[str, str], *, browser: bool, json: bool) -> None:
    if json:
        show_json({"link": link, **about})
    else:
        show(f"The console: {link}" + ("  (works once, Ctrl-C ends it)" if about else ""))
    flush()
    if browser and not webbrowser.open(link):
        note("strandline: no browser could be opened, open the link yourself")
