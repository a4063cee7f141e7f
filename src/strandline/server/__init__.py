"""The server: one log over HTTP. Thin: decode, call one room, encode. See design 0100.

Promises: an answer has the log's result or error unchanged; what a token does not allow
is refused, and what it may not see is never revealed; no request uses more memory than its
limits; a server that stops answers all accepted requests, and ends every stream.

Does not promise an order among requests on different connections.
"""

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
