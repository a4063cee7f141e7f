"""Makes a command of a function: help with examples, errors as exit codes."""

import contextlib
import functools
import inspect
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, ParamSpec

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException

from strandline.cli.exit_codes import ExitCode, code_of
from strandline.cli.screen import OutputError, flush, note, note_error
from strandline.values import NO_LOG, InvalidError, StrandlineError

P = ParamSpec("P")


def new_app(help_text: str) -> typer.Typer:
    """Return an app to which commands can be added: the program, or a group of it."""
    return typer.Typer(
        cls=CommandGroup,
        help=help_text,
        short_help=first_sentence(help_text),
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )


class Command(NamedTuple):
    """A command that can be added to an app."""

    name: str
    function: Callable[..., None]
    text: str
    """Its help."""

    def add_to(self, app: typer.Typer) -> None:
        """Make it a command of `app`."""
        short = first_sentence(self.text)
        added = app.command(self.name, cls=HelpedCommand, help=self.text, short_help=short)
        added(_guarded(self.function))


def command(name: str, *, examples: str, answers: str) -> Callable[[Callable[..., None]], Command]:
    """Make a command of a function.

    `examples` are shell lines that begin with `$ `; tests run them. `answers` describes
    the output of `--json`.
    """

    def make(function: Callable[..., None]) -> Command:
        lines = "\n".join(f"  {line.strip()}" for line in examples.strip().splitlines())
        about = inspect.cleandoc(function.__doc__ or "")
        return Command(name, function, f"{about}\n\nJSON: {answers}\n\n\b\nExamples:\n{lines}\n")

    return make


def _guarded(function: Callable[P, None]) -> Callable[P, None]:
    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            function(*args, **kwargs)
            flush()
        except StrandlineError as caught:
            error = _naming_the_log(caught, kwargs)
            code = code_of(error)
            with contextlib.suppress(BrokenPipeError, OutputError):
                flush()
            if kwargs.get("json"):
                note_error(type(error).__name__, str(error), code, error.fields)
            else:
                note(f"strandline: {type(error).__name__}: {error}")
            raise typer.Exit(code) from caught
        except OutputError as error:
            note(f"strandline: standard output cannot be written: {error}")
            _silence_output()
            raise typer.Exit(ExitCode.UNAVAILABLE) from error
        except KeyboardInterrupt:
            raise typer.Exit(ExitCode.INTERRUPTED) from None
        except BrokenPipeError:
            _silence_output()
            raise typer.Exit(ExitCode.BROKEN_PIPE) from None

    return run


def _naming_the_log(error: StrandlineError, options: Mapping[str, object]) -> StrandlineError:
    """Return `error`; if there is no log, an error that explains how to name one."""
    if "url" not in options or not str(error).startswith(NO_LOG):
        return error
    from strandline.opening import default_url  # noqa: PLC0415 Takes long to import.

    url = options["url"] or default_url()
    return InvalidError(
        "there is no log here, `strandline create` creates one, and --url or STRANDLINE_URL"
        " names another",
        url=url,
        **error.fields,
    )


def _silence_output() -> None:
    """Discard output that Python flushes at exit: it has no reader."""
    if sys.stdout is None:
        return
    null = os.open(os.devnull, os.O_WRONLY)  # noqa: TID251 No file of a log.
    with contextlib.suppress(OSError, ValueError):
        os.dup2(null, sys.stdout.fileno())  # noqa: TID251 The same.


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


def first_sentence(text: str) -> str:
    """Return the text of a command in a list of commands."""
    return " ".join(re.split(r"(?<=\.)\s|\n\n", text, maxsplit=1)[0].split())


class HelpedCommand(TyperCommand):
    """A command whose help shows its arguments: `append TOPIC [PAYLOAD]...`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """See click: also accept `--url URL`, as most commands do, for the argument URL."""
        if any(each.metavar == "[URL]" for each in self._arguments()):
            args = _url_as_argument(args)
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ARG002 # As click calls it.
        """See click: the parts of the usage line."""
        return ["[OPTIONS]", *(each.metavar for each in self._arguments())]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """See click: the help of each argument and option."""
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


def _url_as_argument(args: list[str]) -> list[str]:
    """Return the arguments without `--url` in front of, or at the beginning of, a value."""
    taken = [each.removeprefix("--url=") for each in args]
    return [each for each in taken[:-1] if each != "--url"] + taken[-1:]
