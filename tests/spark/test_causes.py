"""The cause of a failure, out of what Spark says of it."""

from typing import Any
from unittest import mock

import pytest

import strandline as sl
from strandline.spark.causes import job_failed, root_cause
from strandline.spark.pipelines import running

QUERY = "[STREAM_FAILED] Query [id = 78, runId = 6b] terminated with exception: "
PYTHON = """[PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback (most \
recent call last):
  File "orders.py", line 8, in bad
    raise KeyError("first")
KeyError: 'first'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "orders.py", line 10, in bad
    raise ValueError("boom: of the user")
ValueError: boom: of the user
 SQLSTATE: 38000 SQLSTATE: XXKST
=== Streaming Query ===
Current Committed Offsets: {}
Logical Plan:
+- ~Project [bad(key#5)#9 AS x#10]
"""
CAST = """[CAST_INVALID_INPUT] The value 'abc5' cannot be cast to "INT". SQLSTATE: 22018
== SQL (line 1, position 1) ==
cast('abc' || id as int) as x
"""

JAVA = """[FAILED_READ_FILE] Error while reading 1.csv. SQLSTATE: KD001 SQLSTATE: XXKST
=== Streaming Query ===
org.apache.spark.SparkException: [FAILED_READ_FILE] Error while reading 1.csv. SQLSTATE: KD001
\tat org.apache.spark.Reader.read(Reader.scala:1)
Caused by: org.apache.spark.SparkException: Job aborted
\t... 3 more
Caused by: java.lang.IllegalArgumentException: Columns differ:
 2, not 1
\tat org.apache.spark.Header.check(Header.scala:1)
"""


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (QUERY + PYTHON, "ValueError: boom: of the user"),
        (QUERY + CAST, "[CAST_INVALID_INPUT] The value 'abc5' cannot be cast to \"INT\"."),
        (CAST, "[CAST_INVALID_INPUT] The value 'abc5' cannot be cast to \"INT\"."),
        ("ZeroDivisionError: division by zero", "ZeroDivisionError: division by zero"),
        ("", "Spark does not say why"),
        (QUERY + JAVA, "[FAILED_READ_FILE] Error while reading 1.csv. Columns differ: 2, not 1"),
    ],
)
def test_the_cause_is_the_error_that_was_raised(text: str, cause: str) -> None:
    assert root_cause(text) == cause
    assert cause in job_failed(text).fields["reason"]  # type: ignore[operator] # It is a text.


def reason_of(events: list[str], ended: str) -> str:
    return running._reason(events, ended)  # noqa: SLF001 # A run takes half a minute.


def check_causes_are_named() -> None:
    failed = "Flow 'orders' has FAILED.\nError: " + QUERY + PYTHON
    again = failed.replace(".\n", " more than 2 times and will not be restarted.\n", 1)
    other = "Flow 'spent' has FAILED.\nError: " + CAST
    reason = reason_of(["Run is STARTED", failed, failed, again, other], QUERY + PYTHON)
    error = sl.UnavailableError("the pipeline did not complete", reason=reason)
    assert str(error).count("boom: of the user") == 1
    assert "Flow 'orders' has FAILED: ValueError: boom" in reason
    assert "cannot be cast" in str(error)


def test_each_flow_that_failed_is_named_with_its_cause_and_once() -> None:
    check_causes_are_named()
    assert reason_of(["Run is STARTED"], "ZeroDivisionError: no") == "ZeroDivisionError: no"


def test_a_reason_that_is_cut_off_is_caught() -> None:
    def planted(events: Any, ended: str) -> str:
        return "\n".join([*(text for text in events if "failed" in text.lower()), ended])

    with mock.patch.object(running, "_reason", planted), pytest.raises(AssertionError):
        check_causes_are_named()
