"""The server: one log over HTTP. Thin: decode, call one room, encode. See design 0100.

Promises: a response has the result of the log, with the same messages; a token limits which
calls are made and what is visible; no request uses more memory than its limits; a server
that shuts down answers the requests that it has accepted, and ends every stream.

Does not promise an order among requests on different connections.
"""

from strandline.values.extras import needing_module as _needing_module

with _needing_module("what the server needs", "server"):
    import prometheus_client  # noqa: F401 # Only to say what is missing.
    import starlette  # noqa: F401

from strandline.server.app import ENDPOINTS, Application
from strandline.server.call import Call
from strandline.server.caller import Caller
from strandline.server.endpoint import Endpoint, endpoint, json_answer
from strandline.server.settings import ServerSettings
from strandline.server.tokens import Token, TokenScope, TokenTable

__all__ = [
    "ENDPOINTS",
    "Application",
    "Call",
    "Caller",
    "Endpoint",
    "ServerSettings",
    "Token",
    "TokenScope",
    "TokenTable",
    "endpoint",
    "json_answer",
]
