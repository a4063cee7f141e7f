"""The larger parts of pyarrow, imported at their first use.

Importing them takes a tenth of a second, which only a tiered log should pay.
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
