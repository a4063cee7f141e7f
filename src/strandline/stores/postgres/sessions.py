"""Which processes have a database open, as the server knows them."""

from collections.abc import Sequence
from typing import Final

from strandline.log.holders import LogHolder
from strandline.stores.postgres.database import Connection

_SESSIONS: Final = """
    SELECT application_name, (extract(epoch FROM min(backend_start)) * 1000000)::bigint
    FROM pg_stat_activity
    WHERE datname = current_database() AND application_name LIKE 'strandline %'
    GROUP BY application_name ORDER BY 2, 1"""


def sessions(connection: Connection) -> Sequence[LogHolder]:
    """Return each process once, with the time of its first session that is open."""
    found = []
    for name, since_us in connection.execute(_SESSIONS):
        pid, _, host = str(name).removeprefix("strandline ").partition(" ")
        if pid.isdecimal():
            found.append(
                LogHolder(role="session", pid=int(pid), host=host, since_us=since_us, is_live=True)
            )
    return found
