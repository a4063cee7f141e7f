"""Writes to standard output and standard error, as text or JSON."""

import contextlib
import errno
import json
import os
import re
import sys
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, TextIO

import msgspec

#: Characters valid in JSON that a terminal may interpret: they occur only inside strings.
_OBEYED = re.compile("[\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"


def printable(text: str) -> str:
    """Return `text` with all unprintable characters escaped."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, such as `1 record` or `2,000 records`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def to_json(value: object) -> str:
    """Return `value` on one line of JSON, safe to show on a terminal."""
    try:
        text = msgspec.json.encode(value, enc_hook=str).decode()
    except UnicodeEncodeError:
        # An argument that is not UTF-8 contains surrogates, which msgspec cannot encode.
        text = json.dumps(value, default=str, separators=(",", ":"))
    return _OBEYED.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


class OutputError(Exception):
    """Standard output cannot be written, for a reason other than EPIPE."""


@contextlib.contextmanager
def output() -> Iterator[TextIO]:
    """Yield standard output; OutputError with the reason if it cannot be written."""
    # Python has none if it was started with a closed one.
    if sys.stdout is None:
        raise OutputError(os.strerror(errno.EBADF))
    try:
        yield sys.stdout
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(error.strerror) from error


def show(text: str) -> None:
    """Write lines of the answer, with all unprintable characters escaped."""
    _write("\n".join(map(printable, text.split("\n"))))


def _write(text: str) -> None:
    with output() as stream:
        stream.write(f"{text}\n")


def flush() -> None:
    """Flush the answer so far."""
    with output() as stream:
        stream.flush()


def show_json(value: object) -> None:
    """Write one JSON document as a line."""
    _write(to_json(value))


def show_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Write rows under a header, in columns."""
    cells = [[_cell(each) for each in row] for row in rows]
    widths = [
        max(len(name), *(_width(row[column]) for row in cells)) if cells else len(name)
        for column, name in enumerate(header)
    ]
    numeric = [
        bool(rows) and all(isinstance(row[column], int | float) for row in rows)
        for column in range(len(header))
    ]
    _write(_bold(_aligned(header, widths, numeric)))
    for row in cells:
        show(_aligned(row, widths, numeric))


def show_fields(fields: dict[str, object]) -> None:
    """Write names with their values, one on each line."""
    width = max(map(len, fields))
    for name, value in fields.items():
        show(f"{name:<{width}}  {_cell(value)}")


def note(line: str) -> None:
    """Write a line to standard error."""
    sys.stderr.write(f"{line}\n")


def note_error(name: str, message: str, code: int, fields: Mapping[str, object]) -> None:
    """Write an error to standard error as one JSON document."""
    shown = {"class": name, "message": message}
    texts = {each: str(value) for each, value in fields.items()}
    note(to_json({"error": {**shown, "fields": texts, "exit_code": code}}))


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.3f}"
    return printable(str(value))


def _aligned(cells: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    padded = []
    for cell, width, is_number in zip(cells, widths, numeric, strict=True):
        blank = " " * (width - _width(cell))
        padded.append(blank + cell if is_number else cell + blank)
    return "  ".join(padded).rstrip()


def _width(text: str) -> int:
    """Return the width of a text in a terminal."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(each) else 1 + (unicodedata.east_asian_width(each) in "WF")
        for each in text
    )


def _bold(text: str) -> str:
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    has_colour = is_terminal and not os.environ.get("NO_COLOR")
    return f"{_BOLD}{text}{_PLAIN}" if has_colour else text


class ProgressBar(Protocol):
    """Shows the progress of a long operation."""

    def advance(self, count: int = 1) -> None:
        """Show that `count` more are done."""


class _Silent:
    def advance(self, count: int = 1) -> None:
        """Do nothing: the output is not a terminal."""


def is_typed() -> bool:
    """Whether standard input is a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()


@contextlib.contextmanager
def progress(
    what: str, total: int | None = None, *, is_shown: bool = True
) -> Iterator[ProgressBar]:
    """Show progress on standard error, only if it is a terminal."""
    if not is_shown or not sys.stderr.isatty():
        yield _Silent()
        return
    # Imported late: it is slower to import than most commands are to run.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415
    from rich.progress import Progress as Bars  # noqa: PLC0415

    count = "{task.completed:,}" + ("" if total is None else " of {task.total:,}")
    columns = TextColumn("{task.description}"), BarColumn(), TextColumn(count), TimeElapsedColumn()
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task: Any = bars.add_task(what, total=total)

        class _Shown:
            def advance(self, count: int = 1) -> None:
                bars.advance(task, count)

        yield _Shown()
