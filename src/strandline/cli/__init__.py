"""The program `strandline`: a log from the command line.

Promises: `--json` on every command, in a form that stays; exit codes that stay; nothing on
standard output but the answer; no text from a log can send control characters to a terminal.

Does not decide anything: each command reads its arguments, calls one room, shows the answer.
Another group of commands is one more typer app, added in `app.py`. See design 0060.
"""

import sys

from strandline.values.extras import install_command as _install_command

__all__ = ["main"]

_LIBRARIES = {"typer", "rich"}
_INTERRUPTED = 130


def main() -> None:
    """Run the program; exits with its code."""
    try:
        # Here, so that a missing extra gets a clear message.
        from strandline.cli.app import app  # noqa: PLC0415

        app()
    except ModuleNotFoundError as error:
        if error.name not in _LIBRARIES:
            raise
        sys.stderr.write(f"strandline: the command line needs: {_install_command('cli')}\n")
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        # An interrupt that comes before the commands are loaded.
        raise SystemExit(_INTERRUPTED) from None
