"""What `--help` shows of a command."""

import re
from typing import Any

from typer.core import TyperCommand


def first_sentence(text: str) -> str:
    """Return what a list of commands says of one."""
    return " ".join(re.split(r"(?<=\.)\s|\n\n", text, maxsplit=1)[0].split())


class HelpedCommand(TyperCommand):
    """A command whose arguments are shown as they are typed: `append TOPIC [PAYLOAD]...`."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ARG002 # As click calls it.
        """See click: the words of the first line."""
        return ["[OPTIONS]", *(each.metavar for each in self._arguments())]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """See click: what each argument and option is for."""
        arguments = [(each.metavar, each.help) for each in self._arguments()]
        records = [
            each.get_help_record(ctx)
            for each in self.get_params(ctx)
            if each.param_type_name == "option"
        ]
        for title, shown in (("Arguments", arguments), ("Options", records)):
            if shown:
                with formatter.section(title):
                    formatter.write_dl([each for each in shown if each is not None])

    def _arguments(self) -> list[Any]:
        return [each for each in self.params if each.param_type_name == "argument"]
