"""Arrow Flight and Flight SQL beside the HTTP interface. See design 0117.

Promises: the tokens, tenants, scopes and words of the HTTP interface, over the same log; rows
are streamed, and neither a client that takes nothing nor one that sends too much makes the
server hold more than its limits say; SQL reaches the caller's topics, and nothing else.

Does not keep anything between two calls.
"""

from strandline.server.flight.serving import FlightServing

__all__ = ["FlightServing"]
