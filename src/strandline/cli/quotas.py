"""The command about quotas of tenants."""

from collections.abc import Callable
from typing import Annotated, cast

import typer

from strandline.cli.command import command
from strandline.cli.options import Json, Url, opened, parse_size
from strandline.cli.screen import show_json, show_table
from strandline.values import InvalidError, Mode, QuotaLimits
from strandline.values.json_forms import quota_json

_NONE = "none"


@command(
    "quota",
    examples="""$ strandline quota
        $ strandline quota acme --bytes 10GiB --topics 20
        $ strandline quota acme --records-per-s 500 --bytes none""",
    answers="{quotas: [{tenant, bytes, bytes_max, topics, topics_max, records_per_s, "
    "bytes_per_s}, …]}; null where there is no limit.",
)
def quota(
    tenant: Annotated[
        str | None,
        typer.Argument(metavar="[TENANT]", help="A tenant; by default all with a quota."),
    ] = None,
    *,
    url: Url = None,
    size: Annotated[
        str | None,
        typer.Option("--bytes", metavar="SIZE", help="Maximum size of all its topics."),
    ] = None,
    records_per_s: Annotated[
        str | None, typer.Option(metavar="N", help="Maximum records appended per second.")
    ] = None,
    bytes_per_s: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Maximum bytes appended per second.")
    ] = None,
    topics: Annotated[
        str | None, typer.Option(metavar="N", help="Maximum number of topics.")
    ] = None,
    json: Json = False,
) -> None:
    """Show the quotas of tenants and their use, or change a quota.

    Each given option changes its limit, and `none` removes it. Every process applies the
    change within a second.
    """
    given = {
        "bytes_max": _limit(size, parse_size),
        "records_per_s": _limit(records_per_s, _count),
        "bytes_per_s": _limit(bytes_per_s, parse_size),
        "topics_max": _limit(topics, _count),
    }
    limits = {name: value[0] for name, value in given.items() if value is not None}
    if limits and tenant is None:
        raise InvalidError("name the tenant whose quota is to be changed")
    with opened(url, Mode.WRITE if limits else Mode.READ) as log:
        if limits and tenant is not None:
            log.set_quota(tenant, **cast(QuotaLimits, limits))
        found = [each for each in log.quotas() if tenant in (None, each.tenant)]
    if json:
        show_json({"quotas": [quota_json(each) for each in found]})
        return
    rows = [quota_json(each) for each in found]
    header = tuple(rows[0]) if rows else ("tenant",)
    show_table(header, [tuple(_shown(value) for value in row.values()) for row in rows])


def _limit(text: str | None, parse: Callable[[str], int]) -> tuple[int | None] | None:
    """Return the limit of an option, which may be none; None if it is not given."""
    if text is None:
        return None
    return (None,) if text == _NONE else (parse(text),)


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise InvalidError("this is a whole number, or `none`", value=text)
    return int(text)


def _shown(value: object) -> object:
    return "-" if value is None else value
