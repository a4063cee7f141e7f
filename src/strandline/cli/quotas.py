"""The command that shows and changes tenants' quotas."""

from collections.abc import Callable
from typing import Annotated, cast

import typer

from strandline.cli.command import command
from strandline.cli.options import Json, Url, opened, parse_size
from strandline.cli.screen import show, show_json, show_table
from strandline.values import InvalidError, Mode, QuotaLimits, parse_tenant
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
        typer.Option("--bytes", metavar="SIZE", help="The total size of its topics."),
    ] = None,
    records_per_s: Annotated[
        str | None, typer.Option(metavar="N", help="Records appended per second.")
    ] = None,
    bytes_per_s: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Bytes appended per second.")
    ] = None,
    topics: Annotated[
        str | None, typer.Option(metavar="N", help="The number of its topics.")
    ] = None,
    json: Json = False,
) -> None:
    """Show the quotas of tenants and their usage, or change a tenant's quota.

    An option changes that limit, and `none` removes it. Every process applies changes within
    a second.
    """
    given = {
        "bytes_max": _limit(size, parse_size),
        "records_per_s": _limit(records_per_s, _count),
        "bytes_per_s": _limit(bytes_per_s, parse_size),
        "topics_max": _limit(topics, _count),
    }
    whose = parse_tenant(tenant)
    limits = {name: value[0] for name, value in given.items() if value is not None}
    if limits and whose is None:
        raise InvalidError("name the tenant whose quota to change")
    with opened(url, Mode.WRITE if limits else Mode.READ) as log:
        if limits and whose is not None:
            log.set_quota(whose, **cast(QuotaLimits, limits))
        found = [each for each in log.quotas() if whose in (None, each.tenant)]
    if json:
        show_json({"quotas": [quota_json(each) for each in found]})
        return
    rows = [quota_json(each) for each in found]
    if not rows:
        show("no quota is set")
        return
    show_table(tuple(rows[0]), [tuple(_shown(value) for value in row.values()) for row in rows])


def _limit(text: str | None, parse: Callable[[str], int]) -> tuple[int | None] | None:
    """Return an option's limit in a tuple, (None,) for `none`; None if it is not given."""
    if text is None:
        return None
    return (None,) if text == _NONE else (parse(text),)


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise InvalidError("give a whole number, or `none`", value=text)
    return int(text)


def _shown(value: object) -> object:
    return "-" if value is None else value
