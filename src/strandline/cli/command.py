"""How a function becomes a command: its help with examples, its errors as exit codes."""

import contextlib
import functools
import inspect
import os
import sys
from collections.abc import Callable
from typing import NamedTuple, ParamSpec

import typer

from strandline.cli.exit_codes import ExitCode, code_of
from strandline.cli.help_page import HelpedCommand, first_sentence
from strandline.cli.program import CommandGroup
from strandline.cli.screen import OutputError, flush, note, note_error
from strandline.values import StrandlineError

P = ParamSpec("P")


def new_app(help_text: str) -> typer.Typer:
    """Return an app that commands can be added to: the program's own, or a group of it."""
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

    `examples` are lines of a shell that begin with `$ `; tests run them. `answers` says
    what `--json` gives.
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
        except StrandlineError as error:
            code = code_of(error)
            with contextlib.suppress(BrokenPipeError, OutputError):
                flush()
            if kwargs.get("json"):
                note_error(type(error).__name__, str(error), code, error.fields)
            else:
                note(f"strandline: {type(error).__name__}: {error}")
            raise typer.Exit(code) from error
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


def _silence_output() -> None:
    """Let Python flush into nothing when it ends: the output has no reader."""
    if sys.stdout is None:
        return
    null = os.open(os.devnull, os.O_WRONLY)  # noqa: TID251 No file of a log.
    with contextlib.suppress(OSError, ValueError):
        os.dup2(null, sys.stdout.fileno())  # noqa: TID251 The same.
