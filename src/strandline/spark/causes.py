"""Why Spark failed, out of what it says: pages of stack traces, with the cause among them."""

import re
from typing import Final

from strandline.values import UnavailableError

_TRACEBACK: Final = "Traceback (most recent call last):"
_STREAM_FAILED: Final = re.compile(r"\A\[STREAM_FAILED\].*?terminated with exception: ", re.DOTALL)
_STATE: Final = re.compile(r"( SQLSTATE: \w{5})+\Z")


def root_cause(text: str) -> str:
    """Return the line that says what happened.

    It is the error that ended the last Python traceback, or else the first line of what
    Spark says.
    """
    raised = _raised(text.splitlines())
    if raised is not None:
        return raised
    said = _STREAM_FAILED.sub("", text.strip()).splitlines()
    return _STATE.sub("", said[0].strip()) if said else "Spark does not say why"


def _raised(lines: list[str]) -> str | None:
    found, is_inside = None, False
    for line in lines:
        if line.endswith(_TRACEBACK):
            is_inside = True
        elif is_inside and line and not line[0].isspace():
            found, is_inside = _STATE.sub("", line.strip()), False
    return found


def job_failed(text: str) -> UnavailableError:
    """Return the error of a job whose Spark query ended with this text."""
    return UnavailableError(
        "the job has failed and what it has written counts; fix the cause and run it again",
        reason=root_cause(text),
    )
