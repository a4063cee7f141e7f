"""Conditions and queries that a caller writes in Spark SQL."""

from typing import TYPE_CHECKING

from strandline.values import InvalidError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def condition(rows: "DataFrame", text: str, name: str) -> "Column":
    """Return a condition over these rows, false where it is null; InvalidError for another."""
    from pyspark.errors import AnalysisException  # noqa: PLC0415 # An extra.
    from pyspark.sql import functions as sql  # noqa: PLC0415

    try:
        found = sql.coalesce(sql.expr(f"({text})"), sql.lit(False))
        rows.where(found).schema  # noqa: B018 # Spark checks it here and not later.
    except AnalysisException as error:
        raise InvalidError(f"{name} is no condition over these columns", **_shown(error)) from error
    return found


def query(rows: "DataFrame", text: str) -> "DataFrame":
    """Return what a SELECT list makes of these rows; InvalidError for anything else."""
    from pyspark.errors import AnalysisException  # noqa: PLC0415 # An extra.

    try:
        return rows.sparkSession.sql(f"SELECT {text} FROM {{rows}}", rows=rows)  # noqa: S608
    except AnalysisException as error:
        raise InvalidError("select is no list of columns to select", **_shown(error)) from error


def _shown(error: Exception) -> dict[str, str]:
    return {"reason": str(error).splitlines()[0]}
