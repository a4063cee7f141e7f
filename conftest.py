"""Runs the Python in README and docs as it stands there, each page in a folder of its own."""

import os
import tempfile
from typing import Any

from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser


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
