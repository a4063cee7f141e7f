"""Findings about the place where a log is stored, or is going to be."""

from typing import NamedTuple


class Examined(NamedTuple):
    """One thing that was examined."""

    check: str
    #: ok, warning or failed.
    verdict: str
    found: str
    #: What to do; empty if nothing.
    advice: str = ""
