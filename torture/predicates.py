"""Generated predicates, evaluated by Spark and by us; each process has its own Spark."""

import atexit
import functools
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from tests.predicates import comparisons
from tests.spark_session import quick_spark, shared_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PREDICATES_PER_SEED = 160
"""How many are made; at least SUPPORTED_PER_SEED of them are in the dialect, and compared."""
SUPPORTED_PER_SEED = 100
SEEDS = -(-20_000 // SUPPORTED_PER_SEED)


@functools.cache
def _session() -> "SparkSession":
    stack = ExitStack()
    stack.enter_context(quick_spark())
    session = stack.enter_context(shared_session())
    # Half of the predicates are meant to fail.
    session.sparkContext.setLogLevel("OFF")
    atexit.register(stack.close)
    return session


def compare(seed: int) -> None:
    """Compare which rows generated predicates select, or that both fail."""
    with tempfile.TemporaryDirectory() as folder:
        count = comparisons.compare(_session(), seed, PREDICATES_PER_SEED, Path(folder))
    assert count >= SUPPORTED_PER_SEED, f"seed={seed}: {count} predicates"
