"""The command that serves a log."""

import json as json_lines
import logging
import sys
import tomllib
from typing import TYPE_CHECKING, Annotated, Any

import typer

from strandline.cli.command import command
from strandline.cli.options import Json, Url, parse_size
from strandline.cli.screen import flush, show, show_json
from strandline.cli.user_files import reading
from strandline.clock import SystemClock
from strandline.values import Mode, StrandlineError
from strandline.values.extras import needing_module
from strandline.values.json_forms import moment


def _read(context: typer.Context, path: str | None) -> str | None:
    """Use the file's values as defaults for options that are not given otherwise."""
    if path is None:
        return None
    try:
        with reading(path) as file:
            found = tomllib.load(file)
    except StrandlineError as error:
        raise typer.BadParameter(f"{path} cannot be read: {error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{path} is not TOML: {error}") from error
    values = {name.replace("-", "_"): value for name, value in found.items()}
    known = {str(each.name) for each in context.command.params} - {"config", "help"}
    if strange := sorted(values.keys() - known):
        raise typer.BadParameter(
            f"{path} has unknown options {', '.join(strange)}, use {', '.join(sorted(known))}"
        )
    context.default_map = {**(context.default_map or {}), **values}
    return path


Config = Annotated[
    str | None,
    typer.Option(
        metavar="PATH",
        envvar="STRANDLINE_CONFIG",
        is_eager=True,
        callback=_read,
        help="A TOML file with options; arguments and environment variables override it.",
    ),
]


if TYPE_CHECKING:
    from strandline.server.settings import ServerSettings


FlightPort = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=0,
        max=65535,
        envvar="STRANDLINE_FLIGHT_PORT",
        help="Also serve Arrow Flight on this port.",
    ),
]

BodyMax = Annotated[
    str,
    typer.Option(
        metavar="SIZE",
        envvar="STRANDLINE_BODY_MAX",
        help="The maximal size of a request's body.",
    ),
]
Drain = Annotated[
    int,
    typer.Option(
        metavar="SECONDS", min=1, envvar="STRANDLINE_DRAIN", help="How long stopping may take."
    ),
]
ReadOnly = Annotated[
    bool,
    typer.Option("--read-only", envvar="STRANDLINE_READ_ONLY", help="Open the log read-only."),
]


@command(
    "serve",
    examples="""$ timeout 2 strandline serve --port 0 || true
        $ timeout 2 strandline serve --port 0 --json || true""",
    answers="a line once it is ready: {url, flight, log}.",
)
def serve(
    *,
    config: Config = None,
    url: Url = None,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", envvar="STRANDLINE_HOST", help="Where to listen.")
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, max=65535, envvar="STRANDLINE_PORT", help="0: any free one."
        ),
    ] = 7007,
    flight_port: FlightPort = None,
    tls_cert: Annotated[
        str | None,
        typer.Option(metavar="PATH", envvar="STRANDLINE_TLS_CERT", help="A certificate, in PEM."),
    ] = None,
    tls_key: Annotated[
        str | None,
        typer.Option(metavar="PATH", envvar="STRANDLINE_TLS_KEY", help="Its private key, in PEM."),
    ] = None,
    require_token: Annotated[
        bool,
        typer.Option(
            "--require-token",
            envvar="STRANDLINE_REQUIRE_TOKEN",
            help="Also on loopback: for use behind a proxy.",
        ),
    ] = False,
    body_max: BodyMax = "32MiB",
    drain: Drain = 20,
    read_only: ReadOnly = False,
    json: Json = False,
) -> None:
    """Serve a log over HTTP, and optionally Arrow Flight, until SIGTERM or Ctrl-C.

    On loopback no token is needed. On any other address TLS is required, and each request
    needs a token, see `strandline token create`. The API is described at /openapi.json.
    """
    del config  # Its values are in the other arguments.
    settings = server_settings(
        needs_token=require_token, body_bytes_max=parse_size(body_max), drain_s=float(drain)
    )
    address = {
        "host": host,
        "port": port,
        "certificate": tls_cert,
        "private_key": tls_key,
        "flight_port": flight_port,
    }
    _run(url, address, settings, read_only=read_only, json=json)


def server_settings(**limits: Any) -> "ServerSettings":
    """Return a server's settings; InvalidError if the packages for serving are missing."""
    with needing_module("what serving needs", "server"):
        from strandline.server.settings import ServerSettings  # noqa: PLC0415 An extra.
    return ServerSettings(**limits)


def _run(
    url: str | None,
    place: dict[str, Any],
    settings: "ServerSettings",
    *,
    read_only: bool,
    json: bool,
) -> None:
    from strandline.opening import open_log  # noqa: PLC0415 See `opened`.
    from strandline.server.running import (  # noqa: PLC0415 An extra.
        Address,
        RunningServer,
        allow_many_files,
    )

    log_to_stderr()
    allow_many_files(settings)
    address = Address(**place)
    address.check()

    def ready(at: str) -> None:
        if json:
            show_json({"url": at, "flight": server.flight_url, "log": str(log.id)})
        else:
            show(f"Serving {described.location or described.backend} at {at}  (Ctrl-C ends it)")
            show(f"  export STRANDLINE_URL={at}")
            show(f"  console: {at}/console/")
            if server.flight_url is not None:
                show(f"  flight: {server.flight_url}")
        flush()

    with open_log(url, mode=Mode.READ if read_only else Mode.WRITE) as log:
        described = log.describe()
        server = RunningServer(log, address, settings)
        server.run(ready)
        if not read_only:
            log.flush()


class JsonLines(logging.Formatter):
    """One line of JSON for each log record, for programs that collect them."""

    def format(self, record: logging.LogRecord) -> str:
        """See logging."""
        fields: dict[str, object] = {
            "time": moment(SystemClock.now_us()),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["error"] = self.formatException(record.exc_info)
        return json_lines.dumps(fields)


def log_to_stderr() -> None:
    """Log to standard error: JSON lines, or, on a terminal, warnings as text."""
    root = logging.getLogger()
    if root.handlers:
        return
    handler = logging.StreamHandler(sys.stderr)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    if not sys.stderr.isatty():
        handler.setFormatter(JsonLines())
        # A person reads where it serves on standard output.
        logging.getLogger("strandline").setLevel(logging.INFO)
