"""Runs the Python in README and docs as it stands there."""

from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser()], patterns=["README.md", "docs/**/*.md", "docs/*.md"]
).pytest()
