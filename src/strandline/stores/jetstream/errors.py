"""Translates JetStream's errors for the caller of a log."""

from typing import Any, Final

from strandline.values import InvalidError, StrandlineError, UnavailableError

STREAM_NOT_FOUND: Final = 10059
MESSAGE_NOT_FOUND: Final = 10037
NAME_IN_USE: Final = 10058
WRONG_LAST_SEQUENCE: Final = frozenset({10071, 10164})
#: A batch whose messages did not all arrive; nothing of it was stored.
BATCH_INCOMPLETE: Final = frozenset({10176, 10211})
_NO_JETSTREAM: Final = frozenset({10039, 10076})
#: A limit of the server, the account or the stream was reached.
_FULL: Final = frozenset({10002, 10023, 10026, 10028, 10047, 10077, 10120, 10122})
_NO_PEERS: Final = frozenset({10005, 10074, 10052})
#: In such an answer: there are enough servers, but one of them is unavailable.
_OFFLINE: Final = "offline"
_BUSY: Final = 503


class ApiRefusedError(Exception):
    """JetStream's API answered with an error."""

    def __init__(self, error: dict[str, Any]) -> None:
        self.code: Final = int(error.get("err_code", 0))
        self.status: Final = int(error.get("code", 0))
        self.reason: Final = str(error.get("description", ""))
        super().__init__(f"{self.reason} ({self.code})")

    @property
    def is_passing(self) -> bool:
        """Whether the same request may succeed soon, for example after an election."""
        if self.code in _NO_PEERS:
            return _OFFLINE in self.reason
        return self.status == _BUSY and self.code not in _NO_JETSTREAM | _FULL


def refused(error: ApiRefusedError, url: str) -> StrandlineError:
    """Return our error for an answer that no caller expects."""
    if error.code in _NO_JETSTREAM:
        return no_jetstream(url)
    if error.code in _FULL:
        return UnavailableError(
            "a limit of the server's storage is reached: raise max_file_store, or the limits of the"
            " account, or apply retention",
            url=url,
            reason=str(error),
        )
    if error.code in _NO_PEERS and not error.is_passing:
        return InvalidError(
            "the cluster has too few servers for these replicas, use fewer or start more",
            url=url,
            reason=str(error),
        )
    return UnavailableError("the server refused this, see the reason", url=url, reason=str(error))


def no_jetstream(url: str) -> InvalidError:
    """Return the error for a server, or an account, without JetStream."""
    return InvalidError(
        "this server has no JetStream for this user: start it with jetstream { … } and enable it"
        " for the account",
        url=url,
    )
