"""Settings that every test shares."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis.configuration import set_hypothesis_home_dir
from hypothesis.database import DirectoryBasedExampleDatabase

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HYPOTHESIS_HOME = Path(__file__).parent.parent / ".cache" / "hypothesis"

set_hypothesis_home_dir(HYPOTHESIS_HOME)

# Hypothesis would repeat the same examples for ever where CI is set, and its time
# limit per example would turn a busy machine into a failure.
settings.register_profile(
    "strandline",
    database=DirectoryBasedExampleDatabase(HYPOTHESIS_HOME / "examples"),
    deadline=None,
    derandomize=False,
    print_blob=True,
)
settings.load_profile("strandline")

# What PySpark does in its own code, for tests that run it; warnings are errors elsewhere.
PYSPARK_WARNINGS = ("ignore::ResourceWarning", "ignore::DeprecationWarning:pyspark")


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    """The one Spark session of the run."""
    from tests.spark_session import shared_session  # noqa: PLC0415 # Importing PySpark takes time.

    with shared_session() as session:
        yield session


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            for warning in PYSPARK_WARNINGS:
                item.add_marker(pytest.mark.filterwarnings(warning))
