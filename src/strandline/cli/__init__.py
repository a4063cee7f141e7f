"""The program `strandline`: a log from the command line.

Promises: `--json` for every command, in a stable form; stable exit codes; only results on
standard output; no text from a log can send control characters to a terminal.

Contains no logic: each command reads its arguments, calls one room, and shows the result.
Another group of commands is another typer app, added in `app.py`. See design 0060.
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
        # Frequent calls of scripts need none of the commands.
        _show_version()
        return
    try:
        # Imported here, so that a missing extra gets a clear message.
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
    """Prevent files of a log from getting the number of a closed standard stream."""
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
        # Otherwise Python would try again at exit, and print an error.
        sys.stdout = None
        if isinstance(error, BrokenPipeError):
            raise SystemExit(_BROKEN_PIPE) from None
        sys.stderr.write(f"strandline: standard output cannot be written: {error}\n")
        raise SystemExit(_UNAVAILABLE) from None
