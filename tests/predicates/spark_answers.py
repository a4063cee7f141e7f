"""What Spark says to many predicates on one table, a few jobs for all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GROUP = 24
COLUMNS = 64


class Failed(frozenset[int]):
    """The answer of a predicate that fails."""

    reason: str = ""


def answers(
    spark: SparkSession, view: str, predicates: Sequence[str], *, group: int = GROUP
) -> Iterator[tuple[str, frozenset[int]]]:
    """Yield each predicate with the ids of the rows that Spark selects, or Failed.

    A group is one job, and is split only if one of it fails.
    """
    for at in range(0, len(predicates), group):
        yield from _answer(spark, view, predicates[at : at + group])


def masks(
    spark: SparkSession, view: str, predicates: Sequence[str], *, group: int = COLUMNS
) -> Iterator[tuple[str, frozenset[int]]]:
    """Yield the same for predicates that cannot fail: each is a column of one job.

    That is many times quicker than a filter for each.
    """
    for at in range(0, len(predicates), group):
        yield from _mask(spark, view, predicates[at : at + group])


def _mask(
    spark: SparkSession, view: str, predicates: Sequence[str]
) -> Iterator[tuple[str, frozenset[int]]]:
    columns = ", ".join(f"(\n{text}\n) AS p{number}" for number, text in enumerate(predicates))
    try:
        rows = spark.sql(f"SELECT id, {columns} FROM {view}").collect()  # noqa: S608 - As below.
    except PySparkException:
        if len(predicates) == 1:
            yield from _answer(spark, view, predicates)
            return
        half = len(predicates) // 2
        yield from _mask(spark, view, predicates[:half])
        yield from _mask(spark, view, predicates[half:])
        return
    for number, text in enumerate(predicates):
        yield text, frozenset(row[0] for row in rows if row[number + 1])


def _answer(
    spark: SparkSession, view: str, predicates: Sequence[str]
) -> Iterator[tuple[str, frozenset[int]]]:
    selects = [
        f"SELECT {number} AS p, id FROM {view} WHERE {text}"  # noqa: S608 - That is the point.
        for number, text in enumerate(predicates)
    ]
    try:
        rows = spark.sql(" UNION ALL ".join(selects)).collect()
    except PySparkException as error:
        if len(predicates) == 1:
            failed = Failed()
            failed.reason = str(error).split("\n")[0][:300]
            yield predicates[0], failed
            return
        half = len(predicates) // 2
        yield from _answer(spark, view, predicates[:half])
        yield from _answer(spark, view, predicates[half:])
        return
    found: list[set[int]] = [set() for _ in predicates]
    for number, row in rows:
        found[number].add(row)
    yield from zip(predicates, map(frozenset, found), strict=True)
