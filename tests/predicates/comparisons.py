"""Many generated predicates, each evaluated by Spark and by us."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from strandline.predicates import (
    Predicate,
    PredicateError,
    PredicateEvalError,
    UnsupportedPredicateError,
    parse_predicate,
)
from tests.predicates.generated import Generator
from tests.predicates.spark_answers import Failed, answers, masks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 24
INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
#: One seed in so many asks by filters alone, and one is compiled by Spark.
_FILTERS_EVERY = 8
_COMPILED_EVERY = 16

Answer = frozenset[int]


class Compared:
    """A table, and what Spark says to predicates on it."""

    def __init__(self, table: pa.Table, expected: Mapping[str, Answer]) -> None:
        self._batch = table.combine_chunks().to_batches()[0]
        self._expected = expected

    def differences(self) -> list[str]:
        """Return the predicates to which we say something else."""
        return [
            f"{text}: ours {_shown(found)}, Spark {_shown(expected)}"
            for text, expected in self._expected.items()
            if _shown(found := ours(text, self._batch)) != _shown(expected)
        ]


def ours(text: str, batch: pa.RecordBatch) -> Answer:
    try:
        return answer_of(parse_predicate(text, batch.schema), batch)
    except PredicateError:
        return Failed()


def answer_of(predicate: Predicate | PredicateError, batch: pa.RecordBatch) -> Answer:
    if not isinstance(predicate, Predicate):
        return Failed()
    try:
        found = predicate.matches(batch)
    except PredicateEvalError:
        return Failed()
    return frozenset(row for row, is_match in enumerate(found.to_pylist()) if is_match)


def _shown(answer: Answer) -> str:
    return "fails" if isinstance(answer, Failed) else str(sorted(answer))


@contextmanager
def set_up(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield
    for name, restored in before.items():
        assert restored is not None
        spark.conf.set(name, restored)


def asked(
    spark: SparkSession,
    table: pa.Table,
    texts: list[str],
    folder: Path,
    *,
    is_quick: bool = False,
) -> Compared:
    """Ask Spark; what fails here is asked alone, so that it spoils no group."""
    # With a dictionary, Spark's reader drops pages that have -0.0 where 0.0 is asked for.
    pq.write_table(as_stored(table), folder / "rows.parquet", use_dictionary=False)
    spark.read.parquet(str(folder / "rows.parquet")).createOrReplaceTempView("generated")
    batch = table.combine_chunks().to_batches()[0]
    translated = {text: in_spark(text, table.schema) for text in texts}
    alone = [
        translated[text]
        for text in texts
        if isinstance(answer_of(parsed(text, table.schema), batch), Failed)
    ]
    # In a filter Spark does more with a predicate than in a column, so some are asked there.
    safe = [translated[text] for text in texts if cannot_fail(parsed(text, table.schema))]
    columns = safe if is_quick else []
    others = set(translated.values()) - set(alone) - set(columns)
    found = dict(answers(spark, "generated", sorted(others)))
    found.update(answers(spark, "generated", alone, group=1))
    found.update(masks(spark, "generated", columns))
    return Compared(table, {text: found[translated[text]] for text in texts})


@lru_cache(4096)
def parsed(text: str, schema: pa.Schema) -> Predicate | PredicateError:
    """Return the predicate, or what is wrong with it; parsing costs more than asking."""
    try:
        return parse_predicate(text, schema)
    except PredicateError as error:
        return error


def cannot_fail(found: Predicate | PredicateError) -> bool:
    return isinstance(found, Predicate) and not found._evaluation.node.can_fail  # noqa: SLF001


def as_stored(table: pa.Table) -> pa.Table:
    """Return the table as Spark reads events: payloads are text."""
    at = table.schema.get_field_index("payload")
    texts = pa.chunked_array([chunk.storage for chunk in table.column(at).chunks])
    return table.set_column(at, "payload", texts)


def in_spark(text: str, schema: pa.Schema) -> str:
    """Return what Spark is asked: the text itself, unless it looks into payloads."""
    found = parsed(text, schema)
    if "payload" not in text or not isinstance(found, Predicate):
        return f"{text}\n"
    return found.spark_sql


def is_supported(text: str, schema: pa.Schema) -> bool:
    return not isinstance(parsed(text, schema), UnsupportedPredicateError)


def compare(spark: SparkSession, seed: int, count: int, folder: Path) -> int:
    """Ask for about `count` predicates of a seed; return how many were no others' form.

    AssertionError with the differences; any error of ours that is no predicate's is raised.
    """
    generator = Generator(seed)
    table = generator.table(ROWS)
    texts = list(dict.fromkeys(generator.predicate() for _ in range(count)))
    supported = [text for text in texts if is_supported(text, table.schema)]
    with set_up(spark, {} if seed % _COMPILED_EVERY == 0 else INTERPRETED):
        is_quick = seed % _FILTERS_EVERY != 0
        found = asked(spark, table, supported, folder, is_quick=is_quick).differences()
    assert not found, f"seed={seed}: {found}"
    return len(supported)
