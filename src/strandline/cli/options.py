"""Arguments and options that several commands share, and parsing of their values."""

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from strandline.clock import SystemClock
from strandline.values import (
    EARLIEST,
    LATEST,
    Mode,
    Offset,
    Start,
    StrandlineError,
    Topic,
)
from strandline.values.partitioning import unknown_partition

# Slow imports are made where they are needed: `strandline --help` needs none of them.
if TYPE_CHECKING:
    from strandline.log import Log


def _topics_like(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return completions for a topic's name; none if there is no log."""
    from strandline.opening import open_log  # noqa: PLC0415 See below.

    try:
        with open_log(ctx.params.get("url"), mode=Mode.READ) as log:
            names = [each.name for each in log.topics(tenant=ctx.params.get("tenant"))]
    except StrandlineError:
        return []
    return [each for each in names if each.startswith(incomplete)]


TopicName: TypeAlias = Annotated[
    str,
    typer.Argument(metavar="TOPIC", help="The topic's name.", autocompletion=_topics_like),
]
Url: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        help="The log: file:PATH, sqlite:PATH, postgresql://USER@HOST/DATABASE, "
        "nats://USER@HOST/LOG or kafka://HOST:PORT/PREFIX. Without it STRANDLINE_URL, "
        "and without that file:.strandline/events.",
    ),
]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Answer in JSON.")]
Tenant: TypeAlias = Annotated[
    str | None, typer.Option("--tenant", metavar="NAME", help="The topic's tenant.")
]
OnePartition: TypeAlias = Annotated[
    int, typer.Option("--partition", "-p", metavar="N", min=0, help="The partition.")
]
SomePartition: TypeAlias = Annotated[
    int | None,
    typer.Option("--partition", "-p", metavar="N", min=0, help="One partition; by default all."),
]

_OFFSET_DIGITS_MAX = 19
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_UNITS_BYTES = {
    "": 1,
    **{f"{letter}B": 1000**n for n, letter in enumerate("kMGT", 1)},
    **{f"{letter}iB": 1024**n for n, letter in enumerate("KMGT", 1)},
    "B": 1,
}
_AMOUNT = re.compile(r"(\d{1,18})\s*([A-Za-z]*)")


def opened(url: str | None, mode: Mode) -> "Log":
    """Open the log of a command; only commands that document it create one."""
    from strandline.opening import open_log  # noqa: PLC0415

    return open_log(url, mode=mode)


def existing(url: str | None, mode: Mode) -> "Log":
    """Open a log that must exist already, whatever the mode."""
    opened(url, Mode.READ).close()
    return opened(url, mode)


def topic_of(log: "Log", name: str, tenant: str | None) -> Topic:
    """Return the topic that a command names; InvalidError with near matches."""
    return log.topic(name, tenant=tenant)


def partitions_of(log: "Log", topic: Topic, chosen: int | None) -> list[int]:
    """Return the partitions that a command applies to."""
    count = log.describe_topic(topic).settings.partitions
    if chosen is None:
        return list(range(count))
    if chosen >= count:
        raise unknown_partition(chosen, count)
    return [chosen]


def parse_age(text: str) -> int:
    """Return the seconds in `90s`, `15m`, `12h`, `7d`, `2w`."""
    found = _AMOUNT.fullmatch(text.strip())
    if found is None or found[2] not in _UNITS_S:
        raise typer.BadParameter(f"{text!r} is not an age: use 90s, 15m, 12h, 7d or 2w")
    return int(found[1]) * _UNITS_S[found[2]]


def parse_size(text: str) -> int:
    """Return the bytes in `4096`, `10MB`, `64MiB`."""
    found = _AMOUNT.fullmatch(text.strip())
    if found is None or found[2] not in _UNITS_BYTES:
        raise typer.BadParameter(f"{text!r} is not a size: use 4096, 10MB or 64MiB")
    return int(found[1]) * int(_UNITS_BYTES[found[2]])


def parse_start(text: str) -> Start | int | datetime:
    """Parse `earliest`, `latest`, an offset, a time, or how long ago."""
    if text in ("earliest", "latest"):
        return EARLIEST if text == "earliest" else LATEST
    if text.isdecimal() and len(text) <= _OFFSET_DIGITS_MAX:
        return int(text)
    found = _AMOUNT.fullmatch(text)
    if found is not None and found[2] in _UNITS_S:
        now = datetime.fromtimestamp(SystemClock().now_us() / 1_000_000, UTC)
        try:
            return now - timedelta(seconds=parse_age(text))
        except OverflowError:
            raise typer.BadParameter(f"{text!r} is longer ago than the year 1") from None
    try:
        return _moment(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not a place to start: use earliest, latest, an offset, "
            "a time such as 2026-03-01T12:00:00Z, or an age such as 15m"
        ) from None


def parse_delivery_time(text: str) -> datetime:
    """Parse a time, or a delay from now; without a zone it is UTC."""
    found = _AMOUNT.fullmatch(text)
    try:
        if found is not None and found[2] in _UNITS_S:
            now = datetime.fromtimestamp(SystemClock().now_us() / 1_000_000, UTC)
            return now + timedelta(seconds=parse_age(text))
        return _moment(text)
    except (ValueError, OverflowError):
        raise typer.BadParameter(
            f"{text!r} is not a delivery time: use a time such as 2026-12-24T18:00:00Z, "
            "or a delay such as 15m"
        ) from None


def parse_time(text: str) -> datetime:
    """Return a time in ISO 8601; without a zone it is UTC."""
    try:
        return _moment(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not a time: use one such as 2026-03-01T12:00:00Z"
        ) from None


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def offset_of(log: "Log", topic: Topic, partition: int, start: Start | int | datetime) -> Offset:
    """Return the offset of a start in a partition at this moment."""
    marks = log.marks(topic, partition)
    if isinstance(start, datetime):
        return log.offset_at(topic, partition, int(start.timestamp() * 1_000_000))
    if isinstance(start, int):
        return Offset(start)
    return marks.low if start is EARLIEST else marks.high
