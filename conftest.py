"""Runs the Python in README and docs as it stands there, each page in a folder of its own.

Here is also the Spark session that pages and tests share.
"""

import os
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What PySpark does in its own code, for tests that run it; warnings are errors elsewhere.
PYSPARK_WARNINGS = ("ignore::ResourceWarning", "ignore::DeprecationWarning:pyspark")


@pytest.fixture(scope="session")
def spark_pythons() -> Iterator[None]:
    """Pythons that start at once, for each Spark that this process starts from now on."""
    from tests.spark_pythons import forked_pythons  # noqa: PLC0415 # As below.

    with tempfile.TemporaryDirectory(prefix="pythons-") as folder, forked_pythons(folder):
        yield


@pytest.fixture(scope="session")
def spark(spark_pythons: None) -> Iterator["SparkSession"]:  # noqa: ARG001 # Before it.
    """The one Spark session of the run."""
    from tests.spark_session import shared_session  # noqa: PLC0415 # Importing PySpark takes time.

    with shared_session() as session:
        yield session


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        is_page = item.path.suffix == ".md"
        if "spark" not in getattr(item, "fixturenames", ()):
            continue
        for warning in PYSPARK_WARNINGS:
            item.add_marker(pytest.mark.filterwarnings(warning))
        if is_page:
            item.add_marker(pytest.mark.slow)


def _enter_folder(namespace: dict[str, Any]) -> None:
    namespace["_left"] = os.getcwd()
    namespace["_folder"] = tempfile.TemporaryDirectory(prefix="strandline-docs-")
    os.chdir(namespace["_folder"].name)


def _leave_folder(namespace: dict[str, Any]) -> None:
    os.chdir(namespace["_left"])
    namespace["_folder"].cleanup()


SPARK_PAGES = ["docs/howto/spark-*.md", "docs/tutorial.md"]

_pages = Sybil(
    parsers=[PythonCodeBlockParser()],
    patterns=["README.md", "docs/*.md", "docs/*/*.md", "docs/*/*/*.md"],
    excludes=SPARK_PAGES,
    setup=_enter_folder,
    teardown=_leave_folder,
)
_spark_pages = Sybil(
    parsers=[PythonCodeBlockParser()],
    patterns=SPARK_PAGES,
    setup=_enter_folder,
    teardown=_leave_folder,
    fixtures=["spark"],
)
pytest_collect_file = (_pages + _spark_pages).pytest()


class Together(LoadScopeScheduling):  # type: ignore[misc] # xdist tells no types.
    """Leaves all of Spark, and what builds on one another in a page, to one process each."""

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        if "spark" in path or path == "docs/tutorial.md":
            return "spark"
        return path if path.endswith(".md") else nodeid


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Together:
    return Together(config, log)
