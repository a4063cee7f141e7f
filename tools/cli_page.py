"""Writes docs/reference/cli.md from the commands themselves.

    python -m tools.cli_page

A test compares the page with what this makes.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from strandline.cli.app import app
from strandline.cli.exit_codes import MEANINGS

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "cli.md"

_INTRODUCTION = """\
# The command line

`pip install ".[cli]"` in a checkout brings the program `strandline`, which is also \
`python -m strandline`. This page is made from the \
commands by `python -m tools.cli_page`; `strandline COMMAND --help` says the same.

`--url` is the log that a command uses; without it, the variable `STRANDLINE_URL`; and without \
that, `file:.strandline/events`, or `events` in `STRANDLINE_STATE_DIR`. A command that only reads \
changes no byte, and only `create` and `import` create a log.

The answer goes to standard output, everything else to standard error; progress is shown on a \
terminal only, and there without colour if `NO_COLOR` is set. Control characters in the content of \
a log are escaped. With `--json` the answer is one JSON document on one line, or a \
line for each record where records are shown; fields may be added, and none is renamed or \
removed. An error is then one JSON document on standard error: \
`{error: {class, message, fields, exit_code}}`, with the class `UsageError` for a call that is \
not valid. `strandline --install-completion` adds completion of commands and topics to your shell.

A PLACE is `earliest`, `latest`, an offset, a time such as `2026-03-01T12:00:00Z` (UTC by \
default), or how long ago, such as `15m`. An AGE is `90s`, `15m`, `12h`, `7d` or `2w`, a SIZE \
`4096`, `10MB` or `64MiB`.
"""

_EXAMPLES = """\
## The examples

The examples below are run as tests, on this log:

```sh
{lines}
```

and those of `views` find the snapshot `totals.snapshot` of a view over `orders`, those of \
`dead-letters` one record that the consumer `billing` could not handle.
"""

_EXPORTS = """\
## The format of an export

Both formats have the same content, and `import` restores all of it, except as described below.

- **JSON lines**: the first line is the topic, `{strandline_export: 1, log_id, topic, tenant, \
topic_id, kind, partitions, retention_age_s, retention_bytes, limit_bytes, proof, \
created_at_us, metadata, schemas}`; the schemas are the versions of a typed topic's, as Arrow \
serializes them, in base64. Then a line for each record: \
`{partition, offset, timestamp_us, key, tenant}` and of an event \
`{kind, payload, headers, occurred_at_us}`, where payload and headers are the stored JSON, byte \
for byte; of bytes `{value}` in base64; of a batch `{value}`, an Arrow stream of one record batch, \
in base64.
- **Parquet**: the same as columns, times as `timestamp[us, UTC]`, payload and headers as text, \
`value` as binary. The topic is in the file's metadata, as `strandline.export`.

Restored exactly: partition, key, tenant, timestamp, kind, payload, headers, `occurred_at`, bytes, \
batches with their schemas, the settings of the topic, and the versions of its schema. \
Offsets begin at 0, so they are the same unless the oldest records had been trimmed; the file \
keeps the old ones. Kept in the file and not restored: the ids of log and topic, and when the \
topic was created. Not in the file: consumers, identities of writes, epochs, and the values of a \
proof, which `import` computes again.
"""


def page(preparation: tuple[str, ...]) -> str:
    """Return the page; `preparation` is run before the examples."""
    parts = [_INTRODUCTION, _exit_codes(), _EXAMPLES.format(lines="\n".join(preparation))]
    for words, command in commands(typer.main.get_command(app)):
        parts.append(_section(words, command))
        if words == "import":
            parts.append(_EXPORTS.replace("## ", "### ", 1))
    return "\n".join(parts)


def commands(group: Any, words: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every command with the words that lead to it."""
    for name, found in group.commands.items():
        path = f"{words} {name}".strip()
        if hasattr(found, "commands"):
            yield from commands(found, path)
        else:
            yield path, found


def _exit_codes() -> str:
    rows = "\n".join(f"| {int(code)} | {text} |" for code, text in MEANINGS.items())
    head = "## Exit codes\n\nThey do not change between versions.\n\n"
    return f"{head}| code | meaning |\n|---|---|\n{rows}\n"


def _section(words: str, command: Any) -> str:
    about, _, rest = command.help.partition("\n\nJSON: ")
    answers, _, examples = rest.partition("\n\n\b\nExamples:\n")
    lines = "\n".join(line.strip().removeprefix("$ ") for line in examples.strip().splitlines())
    rows = "\n".join(map(_row, (each for each in command.params if each.name != "help")))
    return (
        f"## {words}\n\n{about}\n\n`strandline {words} {_arguments(command)}[OPTIONS]`\n\n"
        f"| option | meaning |\n|---|---|\n{rows}\n\n*JSON:* {_escaped(answers)}\n\n"
        f"```sh\n{lines}\n```\n"
    )


def _arguments(command: Any) -> str:
    names = [_name(each) for each in command.params if each.param_type_name == "argument"]
    return "".join(f"{name} " for name in names)


def _name(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper())


def _row(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        named = f"`{_name(parameter)}`"
    else:
        takes = "" if parameter.is_flag else f" {_name(parameter)}"
        named = ", ".join(f"`{each}{takes}`" for each in parameter.opts)
    given = parameter.default
    is_value = given not in (None, "") and not isinstance(given, bool) and not callable(given)
    is_told = is_value and "without it " not in (parameter.help or "").lower()
    told = f" Without it: `{getattr(given, 'value', given)}`." if is_told else ""
    return f"| {_escaped(named)} | {_escaped(parameter.help or '')}{told} |"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    from tests.cli.program import PREPARATION

    PAGE.write_text(page(PREPARATION))
