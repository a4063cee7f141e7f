"""Conversion to Flight's errors: our message, with the problem document as `extra_info`.

Arrow would send an error of another class with its traceback, so every error is converted here.
"""

import contextlib
import logging
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from pyarrow import flight

from strandline.server.problems import RequestError, problem_body
from strandline.values import StrandlineError

_log: Final = logging.getLogger("strandline.server")
_TEXT_MAX: Final = 1500
_KINDS: Final[dict[int, Any]] = {
    401: flight.FlightUnauthenticatedError,
    403: flight.FlightUnauthorizedError,
    408: flight.FlightTimedOutError,
    429: flight.FlightUnavailableError,
    500: flight.FlightInternalError,
    503: flight.FlightUnavailableError,
}


@contextlib.contextmanager
def in_flight_terms() -> Iterator[None]:
    """Convert every error of the block to an error of Flight."""
    try:
        yield
    except (StrandlineError, RequestError) as error:
        raise flight_error(error) from None
    except flight.FlightError:
        raise
    except Exception:  # noqa: BLE001 - Arrow would send its traceback to the client.
        _log.exception("a call of Flight has failed")
        raise flight.FlightInternalError("the server has failed, see its log") from None


def flight_error(error: StrandlineError | RequestError) -> Exception:
    """Return the error of Flight that corresponds to one of ours."""
    body = problem_body(error)
    text = str(body["detail"])
    if len(text) > _TEXT_MAX:
        # gRPC sends an error as a header, and headers have a maximal size.
        text = text[:_TEXT_MAX] + "..."
        body = {**body, "detail": text, "fields": {}}
    kind = _KINDS.get(body["status"], flight.FlightServerError)
    found: Exception = kind(text, msgspec.json.encode(body))
    return found
