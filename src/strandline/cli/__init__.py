"""The program `strandline`: a log from the command line.

Promises: `--json` on every command, in a form that stays; exit codes that stay; nothing on
standard output but the answer; no text from a log can send control characters to a terminal.

Does not decide anything: each command reads its arguments, calls one room, shows the answer.
Another group of commands is one more typer app, added in `app.py`. See design 0060.
"""

import os
import sys

import strandline as _strandline

__all__ = ["main"]

_LIBRARIES = {"typer", "rich"}
#: See `exit_codes`, which is not imported for these.
_UNAVAILABLE, _INTERRUPTED, _BROKEN_PIPE = 4, 130, 141


def main() -> None:
    """Run the program; exits with its code."""
    _fill_closed_streams()
    if sys.argv[1:] == ["--version"]:
        # What scripts ask first needs none of the commands.
        _show_version()
        return
    try:
        # Here, so that a missing extra gets a clear message.
        from strandline.cli.app import app  # noqa: PLC0415

        app()
    except ModuleNotFoundError as error:
        if error.name not in _LIBRARIES:
            raise
        from strandline.values.extras import install_command  # noqa: PLC0415 # As above.

        sys.stderr.write(f"strandline: the command line needs: {install_command('cli')}\n")
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        # An interrupt that comes before the commands are loaded.
        raise SystemExit(_INTERRUPTED) from None


def _fill_closed_streams() -> None:
    """Let no file of a log take the number of a stream that the program was started without."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)  # noqa: TID251 # No file of a log.
        except OSError:
            # The lowest number that is free.
            os.open(os.devnull, os.O_RDWR)  # noqa: TID251 # The same.
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)  # noqa: TID251 # The same.


def _show_version() -> None:
    try:
        if sys.stdout is None:
            raise OSError("it is closed")
        print(f"strandline {_strandline.__version__}", flush=True)  # noqa: T201 # The answer.
    except OSError as error:
        # Or Python would try once more when it ends, and complain.
        sys.stdout = None
        if isinstance(error, BrokenPipeError):
            raise SystemExit(_BROKEN_PIPE) from None
        sys.stderr.write(f"strandline: standard output cannot be written: {error}\n")
        raise SystemExit(_UNAVAILABLE) from None
