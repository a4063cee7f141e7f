"""The server: one log over HTTP. Thin: decode, call one room, encode. See design 0100.

Promises: an answer says what the log said, in the same words; what a token does not allow
is not done, and what it may not see does not show; no request holds more memory than its
limits say; a server that ends answers what it has taken, and ends every stream.

Does not promise an order among requests of several connections.
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
