"""Creates scans, and defines their options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict, Unpack

import pyarrow as pa

from strandline.log import Log, TopicName
from strandline.scans.reading import read_of
from strandline.values import InvalidError
from strandline.values.arguments import check_items, check_options
from strandline.values.names import check_text

if TYPE_CHECKING:
    from strandline.scans.dataset import Scan


class ScanOptions(TypedDict, total=False):
    """Options of `scan`; see there."""

    where: str
    columns: Sequence[str] | None
    tenant: str | None


def scan(log: Log, topic: TopicName, **options: Unpack[ScanOptions]) -> Scan:
    """Return the current rows of a topic, for SQL engines and data frames.

    The columns are those of `read_batches`, or `columns` of them, in that order. `where` is
    a predicate on the columns of `subscribe`, and on the columns `_partition`, `_offset`,
    `_timestamp`, `_key` and `_tenant`. With `tenant`, only rows that this tenant may see: of
    its own topic or else a global one, and of a global one its rows and those without a tenant.

    PredicateError for a predicate that does not fit, InvalidError for an unknown column.
    """
    check_options("scan", options, ScanOptions.__optional_keys__)
    where, tenant = check_text(options.get("where", ""), "predicate"), options.get("tenant")
    found = log.topic(topic) if tenant is None else log.scope(tenant).topic(topic).topic
    read = read_of(log, found, where, tenant)
    # Spark's processes use the rest of this package, and need not import Arrow's datasets.
    from strandline.scans.dataset import Scan  # noqa: PLC0415

    return Scan(read, chosen_columns(read.schema, options.get("columns")))


def chosen_columns(schema: pa.Schema, columns: Sequence[str] | None) -> Sequence[str]:
    """Return the names of the columns, by default all; InvalidError for unknown names."""
    if columns is None:
        return list(schema.names)
    names = [check_text(name, "column") for name in check_items("columns", columns)]
    unknown = [name for name in names if name not in schema.names]
    if unknown or not names or len(set(names)) < len(names):
        raise InvalidError(
            "columns are names of the topic's columns, each once, and at least one",
            columns=names,
            unknown=unknown,
            known=schema.names,
        )
    return names
