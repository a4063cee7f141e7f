"""Runs the Python in README and docs as it stands there, each page in a folder of its own."""

import os
import tempfile
from typing import Any

import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]


def _enter_folder(namespace: dict[str, Any]) -> None:
    namespace["_left"] = os.getcwd()
    namespace["_folder"] = tempfile.TemporaryDirectory(prefix="strandline-docs-")
    os.chdir(namespace["_folder"].name)


def _leave_folder(namespace: dict[str, Any]) -> None:
    os.chdir(namespace["_left"])
    namespace["_folder"].cleanup()


pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser()],
    patterns=["README.md", "docs/**/*.md", "docs/*.md"],
    setup=_enter_folder,
    teardown=_leave_folder,
).pytest()


class Together(LoadScopeScheduling):  # type: ignore[misc] # xdist tells no types.
    """Leaves all of Spark, and what builds on one another in a page, to one process each."""

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        if "spark" in path:
            return "spark"
        return path if path.endswith(".md") else nodeid


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Together:
    return Together(config, log)
