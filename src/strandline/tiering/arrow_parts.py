"""The larger parts of pyarrow, imported when they are first used.

They take a tenth of a second, which a log that is not tiered need not pay.
"""

from functools import cache
from importlib import import_module
from typing import Any


@cache
def compute() -> Any:
    """Return `pyarrow.compute`."""
    return import_module("pyarrow.compute")


@cache
def parquet() -> Any:
    """Return `pyarrow.parquet`."""
    return import_module("pyarrow.parquet")


@cache
def dataset() -> Any:
    """Return `pyarrow.dataset`."""
    return import_module("pyarrow.dataset")
