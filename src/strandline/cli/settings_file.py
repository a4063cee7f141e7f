"""Options of a command that stand in a TOML file."""

import tomllib
from typing import Annotated

import typer

from strandline.cli.user_files import reading
from strandline.values import StrandlineError


def _read(context: typer.Context, path: str | None) -> str | None:
    """Have the file's values stand in for options that are given in no other way."""
    if path is None:
        return None
    try:
        with reading(path) as file:
            found = tomllib.load(file)
    except StrandlineError as error:
        raise typer.BadParameter(f"{path} cannot be read: {error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{path} is no TOML: {error}") from error
    values = {name.replace("-", "_"): value for name, value in found.items()}
    known = {str(each.name) for each in context.command.params} - {"config", "help"}
    if strange := sorted(values.keys() - known):
        raise typer.BadParameter(
            f"{path} has {', '.join(strange)}, known are {', '.join(sorted(known))}"
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
        help="A TOML file with options; those given here, or by variables, go before it.",
    ),
]
