"""Runs the Python and the `bash` in README and docs as it stands there, each page in a folder
of its own. Commands that are only shown are `sh`, or have no language.

Here is also the Spark session that pages and tests share.
"""

import functools
import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sybil import Example, Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser

from tests.page_folders import enter_folder, leave_folder
from tests.scheduling import SPARK, SPARK_PAGES, Together, unit_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What PySpark does in its own code, for tests that run it; warnings are errors elsewhere.
PYSPARK_WARNINGS = ("ignore::ResourceWarning", "ignore::DeprecationWarning:pyspark")


@pytest.fixture(scope="session")
def quick_spark() -> Iterator[None]:
    """Each Spark that this process starts from now on, or one of its children, starts quickly."""
    from tests.spark_session import quick_spark  # noqa: PLC0415 # Importing PySpark takes time.

    with quick_spark():
        yield


@pytest.fixture(scope="session")
def spark(quick_spark: None) -> Iterator["SparkSession"]:  # noqa: ARG001 # Before it.
    """The one Spark session of the run."""
    from tests.spark_session import shared_session  # noqa: PLC0415 # As above.

    with shared_session() as session:
        yield session


# Syncing costs nothing in memory, and no test cuts the power: those of crashes have a disk of
# their own making. A folder is removed once its test has passed.
_MEMORY = "/dev/shm"  # noqa: S108 # pytest makes a folder in it that is the user's alone.
_FREE_MIN = 4 << 30


def _keep_folders_in_memory() -> None:
    if os.path.isdir(_MEMORY) and shutil.disk_usage(_MEMORY).free > _FREE_MIN:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", _MEMORY)


@pytest.fixture(scope="session", autouse=True)
def beside_folders_of_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Have what this process makes with `tempfile` beside the folders of tests."""
    tempfile.tempdir = str(tmp_path_factory.mktemp("more"))
    yield
    tempfile.tempdir = None


def pytest_configure() -> None:
    _keep_folders_in_memory()
    # A shell has what it starts in the background ignore SIGINT, and so would all that we start.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if "spark" not in getattr(item, "fixturenames", ()):
            continue
        assert unit_of(item.nodeid) == SPARK, f"{item.nodeid} needs the session: see unit_of"
        for warning in PYSPARK_WARNINGS:
            item.add_marker(pytest.mark.filterwarnings(warning))
        item.add_marker(pytest.mark.slow)
    for item in items:
        if _is_slow(item.path):
            item.add_marker(pytest.mark.slow)
    if hasattr(config, "workerinput"):
        # What takes long begins first, so that no process works on alone at the end.
        items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_collection_finish() -> None:
    # Thousands of tests are a heap that no collection needs to walk through.
    gc.collect()
    gc.freeze()


def _run_shell(example: Example) -> None:
    """Run a block of commands with bash; the program `strandline` is the one of this Python."""
    done = subprocess.run(  # noqa: S603 # A page of ours.
        ["bash", "-euo", "pipefail", "-c", example.parsed],  # noqa: S607 # The reader's.
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{example.parsed}\n{done.stdout}{done.stderr}"


#: Pages that import much; those that start programs are slow, too.
SLOW_PAGES = {"conversations.md", "with-django.md", "with-fastapi.md", "webhooks.md"}


@functools.cache
def _is_slow(page: Path) -> bool:
    return page.name in SLOW_PAGES or (page.suffix == ".md" and "```bash" in page.read_text())


_pages = Sybil(
    parsers=[PythonCodeBlockParser(), CodeBlockParser(language="bash", evaluator=_run_shell)],
    patterns=["README.md", "docs/*.md", "docs/*/*.md", "docs/*/*/*.md"],
    excludes=SPARK_PAGES,
    setup=enter_folder,
    teardown=leave_folder,
)
_spark_pages = Sybil(
    parsers=[PythonCodeBlockParser(), CodeBlockParser(language="bash", evaluator=_run_shell)],
    patterns=SPARK_PAGES,
    # Pipelines of Spark take no path with a space.
    setup=functools.partial(enter_folder, prefix="strandline-docs-"),
    teardown=leave_folder,
    fixtures=["spark"],
)
pytest_collect_file = (_pages + _spark_pages).pytest()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Together:
    return Together(config, log)
