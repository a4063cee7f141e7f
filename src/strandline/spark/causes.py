"""Extracts the cause of a Spark failure from its error text, which is pages of stack traces."""

import re
from itertools import takewhile
from typing import Final

from strandline.values import UnavailableError

_TRACEBACK: Final = "Traceback (most recent call last):"
_STREAM_FAILED: Final = re.compile(r"\A\[STREAM_FAILED\].*?terminated with exception: ", re.DOTALL)
_CAUSED_BY: Final = "Caused by: "
_JAVA_CLASS: Final = re.compile(r"\A[\w.$]+: ")
_STATE: Final = re.compile(r"( SQLSTATE: \w{5})+\Z")


def text_of(error: Exception) -> str:
    """Return the message of a Spark error, with the Java stack trace of its causes."""
    stack = getattr(error, "_stackTrace", None)
    return f"{error}\n{stack}" if stack else str(error)


def root_cause(text: str) -> str:
    """Return the cause of a failure, in one line.

    The error that ended the last Python traceback, or else the first line of Spark's message,
    with the innermost cause if Java names one.
    """
    lines = text.splitlines()
    raised = _raised(lines)
    if raised is not None:
        return raised
    lines = _STREAM_FAILED.sub("", text.strip()).splitlines()
    first = _STATE.sub("", lines[0].strip()) if lines else "Spark does not say why"
    inner = _innermost(lines)
    return first if inner is None or inner in first else f"{first} {inner}"


def _innermost(lines: list[str]) -> str | None:
    """Return the message of the last cause in a Java stack trace, without its class."""
    starts = [at for at, line in enumerate(lines) if line.startswith(_CAUSED_BY)]
    if not starts:
        return None
    rest = lines[starts[-1] :]
    lines_of_cause = [rest[0].removeprefix(_CAUSED_BY)]
    lines_of_cause += takewhile(
        lambda line: not line.lstrip().startswith(("at ", "... ")), rest[1:]
    )
    message = " ".join(line.strip() for line in lines_of_cause)
    return _STATE.sub("", _JAVA_CLASS.sub("", message).strip())


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
