"""What was found of the place where a log is, or is going to be."""

from typing import NamedTuple


class Examined(NamedTuple):
    """One thing that a store has examined."""

    check: str
    #: ok, warning or failed.
    verdict: str
    found: str
    #: What to do; empty if nothing.
    advice: str = ""
