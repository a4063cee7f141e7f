"""Arrow's classes of a Flight server, with the types that pyarrow does not declare."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyarrow import flight

if TYPE_CHECKING:

    class ArrowFlightServer:
        """`pyarrow.flight.FlightServerBase`, as far as it is used here."""

        def __init__(self, location: str, *, middleware: dict[str, Any]) -> None: ...
        def shutdown(self) -> None:
            """Take no more calls, and return when those that run have ended."""

    class ArrowMiddleware:
        """`pyarrow.flight.ServerMiddleware`."""

    class ArrowMiddlewareFactory:
        """`pyarrow.flight.ServerMiddlewareFactory`."""

else:
    ArrowFlightServer = flight.FlightServerBase
    ArrowMiddleware = flight.ServerMiddleware
    ArrowMiddlewareFactory = flight.ServerMiddlewareFactory
