"""Every command of the program, called with one hostile word at a time."""

import contextlib
import io
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

import typer
from typer.testing import CliRunner

import strandline as sl
from strandline.cli.app import app
from strandline.cli.exit_codes import ExitCode
from tests.hostile.attack import HangsError, deadline
from tests.hostile.folder import own_folder
from tests.hostile.stored import content

WORDS = {
    "empty": "",
    "space": " ",
    "NUL": "a\x00b",
    "newline": "a\nb",
    "surrogate": "\udcff",
    "long": "x" * 5_000,
    "number": "1",
    "minus": "-1",
    "huge": "9" * 40,
    "fraction": "0.5",
    "nan": "nan",
    "inf": "inf",
    "exponent": "1e999",
    "digits of another script": "\u0661",
    "path up": "../../x",
    "directory": ".",
    "device": "/dev/null",
    "missing": "/no/such/file",
    "brace": "{",
    "deep": "[" * 20_000,
    "quote": "'",
    "semicolon": "a; DROP TABLE b",
    "time": "2020-01-01T00:00:00Z",
    "time beyond": "9999-12-31T23:59:59-14:00",
    "age": "99999999999999d",
    "size": "99999999999999TiB",
    "pair": "=",
    "file url": "file:",
    "unknown url": "nowhere:x",
    "memory": "memory:",
    "store": "s4://x",
    "predicate": "kind = '\udcff'",
}

GOOD: dict[str, list[str]] = {
    "topics": [],
    "describe": ["topic=events"],
    "create": ["topic=new"],
    "trim": ["topic=events", "--before", "0"],
    "append": ["topic=events", "payloads=1", "--kind", "k"],
    "read": ["topic=events"],
    "tail": ["topic=events"],
    "consumers": ["topic=events"],
    "ack": ["topic=events", "consumer=c", "--to", "1"],
    "seek": ["topic=events", "consumer=c", "place=earliest"],
    "add-partitions": ["topic=events", "partitions=4"],
    "declare": ["topic=events", "fields=amount BIGINT"],
    "retention": ["topic=events"],
    "drop": ["topic=events"],
    "erase": ["topic=events", "--key", "a"],
    "quota": ["tenant=acme", "--topics", "9"],
    "holders": [],
    "lag": [],
    "forget": ["topic=events", "consumer=c"],
    "verify": ["topics=events"],
    "tier": ["topic=events", "store=memory:///hostile"],
    "views": ["files=/no/such/snapshot"],
    "export": ["topic=events", "path=out.jsonl"],
    "import": ["path=in.jsonl"],
    "backup": ["target=copy"],
    "restore": ["source=copy"],
    "copy": ["source=file:log", "target=file:moved"],
    "dead-letters list": ["topic=events"],
    "dead-letters redrive": ["topic=events"],
    "dead-letters discard": ["topic=events"],
    "dead-letters show": ["topic=events", "offset=0"],
    "doctor": [],
    "token create": ["--scope", "read"],
    "token list": [],
    "token revoke": ["token=0123456789ab"],
    "pipeline init": ["folder=shop"],
}
"""The words of a call that succeeds or says why not; an argument with its name in front."""

NOT_ATTACKED = {
    "bench": "measures for seconds",
    "serve": "serves until it is stopped",
    "console": "serves until it is stopped",
    **dict.fromkeys(
        (
            *("pipeline audit", "pipeline tier", "pipeline rebuild", "pipeline snapshot"),
            *("pipeline export", "pipeline derive", "pipeline backfill", "pipeline run"),
        ),
        "starts Spark",
    ),
}


_URL = "file:log"
_PARTLY = {"append", "import"}
"""Commands that store what comes before the line that is refused, and say how much."""


class Command(NamedTuple):
    """A command, and one of its parameters to be replaced."""

    name: str
    parameter: str
    option: str | None
    word: str


def commands() -> dict[str, Any]:
    """Return each command by its words."""
    return dict(_walk(typer.main.get_command(app), ()))


def _walk(found: Any, words: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    if hasattr(found, "commands"):
        for name, each in found.commands.items():
            yield from _walk(each, (*words, name))
    else:
        yield " ".join(words), found


def cases() -> list[Command]:
    """Return every case."""
    return [
        Command(name, each.name, each.opts[0] if each.param_type_name == "option" else None, word)
        for name, found in commands().items()
        if name in GOOD
        for each in found.params
        if not getattr(each, "is_flag", False)
        for word in WORDS
    ]


def sample(seed: int, count: int) -> list[Command]:
    """Return some of the cases."""
    return random.Random(seed).sample(cases(), count)


def attack(chosen: list[Command]) -> list[str]:
    """Run the cases in a folder of their own; return a line for each that broke a rule."""
    broken = []
    with own_folder():
        with sl.open(_URL) as log:
            log.create_topic("events")
            log.append("events", sl.Event("k", 1))
        for case in chosen:
            finding = _run(case)
            if finding is not None:
                broken.append(f"{case}: {finding}")
    return broken


def _run(case: Command) -> str | None:
    hostile = WORDS[case.word]
    words = []
    for word in GOOD[case.name]:
        name, equals, value = word.partition("=")
        words.append(hostile if equals and name == case.parameter else value if equals else word)
    if case.option is not None:
        if case.option in words:
            words[words.index(case.option) + 1] = hostile
        else:
            words += [case.option, hostile]
    if case.option != "--url" and any(each.name == "url" for each in commands()[case.name].params):
        words += ["--url", _URL]
    words.append("--json")
    before = _stored()
    try:
        with contextlib.redirect_stderr(io.StringIO()), deadline():
            done = CliRunner().invoke(app, [*case.name.split(), *words], input=b"")
    except HangsError:
        return "did not end"
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        return f"{type(done.exception).__name__}: {str(done.exception)[:150]}"
    if done.exit_code not in set(ExitCode):
        return f"code {done.exit_code}"
    if "Traceback" in done.output:
        return "a traceback"
    if done.exit_code == ExitCode.OK or case.name in _PARTLY:
        return None
    return None if _stored() == before else f"stored something, and ended with {done.exit_code}"


def _stored() -> object:
    with sl.open(_URL, mode="read") as log:
        return content(log)
