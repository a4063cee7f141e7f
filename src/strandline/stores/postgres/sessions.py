"""Which processes have a log open, as the server knows them."""

from collections.abc import Sequence
from typing import Final

from strandline.log.holders import LogHolder
from strandline.stores.postgres.database import Connection
from strandline.stores.postgres.session_name import log_tag, parse_session_name

_SESSIONS: Final = """
    SELECT application_name, (extract(epoch FROM min(backend_start)) * 1000000)::bigint
    FROM pg_stat_activity
    WHERE datname = current_database() AND application_name LIKE 'strandline %'
    GROUP BY application_name ORDER BY 2, 1"""


def sessions(connection: Connection, schema: str) -> Sequence[LogHolder]:
    """Return each process with the log in a schema once, since its first session that is open."""
    found = []
    for name, since_us in connection.execute(_SESSIONS):
        named = parse_session_name(str(name))
        if named is not None and named.log in {log_tag(schema), ""}:
            found.append(
                LogHolder(
                    role="session",
                    pid=named.pid,
                    host=named.host,
                    since_us=since_us,
                    is_live=True,
                )
            )
    return found
