"""Shows a call that typer itself refuses like any other error."""

import sys
from collections.abc import Sequence
from typing import Any

from typer.core import TyperGroup
from typer.exceptions import TyperException

from strandline.cli.exit_codes import ExitCode
from strandline.cli.screen import note_error


class CommandGroup(TyperGroup):
    """The commands of the program, or of a group."""

    def main(self, args: Sequence[str] | None = None, *more: Any, **options: Any) -> Any:
        """See click: run a command, and exit with its code."""
        words = sys.argv[1:] if args is None else args
        if "--json" not in words:
            return super().main(args, *more, **options)
        try:
            code = super().main(args, *more, **{**options, "standalone_mode": False})
        except TyperException as error:
            note_error("UsageError", error.format_message(), ExitCode.USAGE, {})
            code = ExitCode.USAGE
        sys.exit(code or ExitCode.OK)
