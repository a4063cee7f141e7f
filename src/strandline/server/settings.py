"""What a server allows: limits of size, number and time."""

from dataclasses import dataclass, fields
from typing import Final

from strandline.values.arguments import check_seconds, check_whole

WAIT_MAX_S: Final = 60.0
"""How long a read may wait for records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Limits of one server. With these, a request uses at most 640 MiB of memory."""

    body_bytes_max: int = 32 * 1024 * 1024
    """How large a body may be; a larger one is refused before it is read."""
    body_timeout_s: float = 30.0
    """How long a body may take to arrive."""
    page_records_max: int = 10_000
    """How many records one read returns at most."""
    page_bytes_max: int = 8 * 1024 * 1024
    """How many bytes of records one read returns at most, unless the first is larger. Pages that
    wait to be sent take at most 32 times that, in all."""
    streams_max: int = 4096
    """How many streams (tail, watch) may be open."""
    streams_per_token_max: int = 1024
    """How many of them one token may have open; all callers without a token count as one."""
    connections_max: int = 8192
    """How many connections may be open; further ones are answered 503, and closed at once. Fewer
    where the process may not open so many files."""
    requests_per_token_max: int = 4096
    """How many requests of one token may be under way, those that wait for records among them;
    all callers without a token count as one. Its streams count for themselves."""
    slow_reader_s: float = 20.0
    """How long a client may read nothing of an answer or a stream, before it is disconnected."""
    ping_s: float = 15.0
    """After how long without an event a stream sends a ping."""
    long_poll_s: float = 20.0
    """How long a long poll of a stream waits for messages."""
    events_s: float = 60.0
    """After how long an SSE response of a stream ends, so that the client connects again."""
    header_timeout_s: float = 10.0
    """How long the head of a request may take to arrive."""
    flight_calls_max: int = 64
    """How many calls of Arrow Flight may be under way."""
    flight_calls_per_token_max: int = 32
    """How many of them one token may have; all callers without a token count as one."""
    flight_connections_max: int = 256
    """How many connections of Arrow Flight may be open; further ones are closed at once."""
    sql_queries_max: int = 4
    """How many SQL statements run at a time."""
    sql_memory_bytes_max: int = 256 * 1024 * 1024
    """How much memory one SQL statement may take."""
    sql_timeout_s: float = 30.0
    """How long one SQL statement may compute; the time that its reader takes does not count."""
    drain_s: float = 20.0
    """How long a shutdown waits for requests, before it closes their connections."""
    needs_token: bool = False
    """Whether every request needs a token: always, unless the server listens on loopback."""

    def __post_init__(self) -> None:
        """Raise InvalidError for a limit that is not positive."""
        for each in fields(self):
            value = getattr(self, each.name)
            if each.type is int:
                check_whole(each.name, value, 1)
            elif each.name.endswith("_s"):
                check_seconds(each.name, value, allows_zero=each.name == "drain_s")
