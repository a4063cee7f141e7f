"""Translates Kafka's errors for the caller of a log."""

from typing import Final

from confluent_kafka import KafkaError

from strandline.stores.lost_answer import LostError, NotSentError
from strandline.values import InvalidError, StrandlineError, UnavailableError

_REFUSED: Final = frozenset(
    {
        KafkaError._AUTHENTICATION,
        KafkaError._SSL,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.ILLEGAL_SASL_STATE,
    }
)
_NO_RIGHT: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
    }
)
_TOO_LARGE: Final = frozenset(
    {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE, KafkaError.INVALID_MSG_SIZE}
)
#: Transient errors: nothing of the request was stored.
_NOT_STORED: Final = frozenset(
    {
        KafkaError._QUEUE_FULL,
        KafkaError.NOT_ENOUGH_REPLICAS,
    }
)
_MISSING: Final = frozenset(
    {
        KafkaError._NOENT,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    }
)
#: The leader was replaced: what was sent to it may be stored.
_STALE: Final = frozenset(
    {
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.UNKNOWN_LEADER_EPOCH,
    }
)
_THERE: Final = frozenset({KafkaError.TOPIC_ALREADY_EXISTS, KafkaError.INVALID_PARTITIONS})
#: Reported by a consumer that may not use groups.
NO_GROUPS: Final = KafkaError.GROUP_AUTHORIZATION_FAILED
#: Not an error: a consumer has reached the end.
AT_END: Final = KafkaError._PARTITION_EOF
#: A connection was lost.
BROKEN: Final = frozenset({KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN})
_GONE: Final = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})
_IMPOSSIBLE: Final = frozenset(
    {
        KafkaError.INVALID_REPLICATION_FACTOR,
        KafkaError.POLICY_VIOLATION,
        KafkaError.INVALID_CONFIG,
        KafkaError._INVALID_ARG,
    }
)


class MissingError(NotSentError):
    """The topic does not exist, or not yet."""


class StaleError(LostError):
    """The client used a former leader, and must refresh its metadata."""


class ThereError(Exception):
    """The topic, or the partition, exists already."""


class GoneError(Exception):
    """The offset lies before the first message still stored."""


def translated(error: KafkaError, url: str) -> Exception:
    """Translate a client's error: to one of a log, or one after which to try again."""
    code = error.code()
    if code in _GONE:
        return GoneError(error.str())
    if code in _THERE:
        return ThereError(error.str())
    if code in _MISSING:
        return MissingError(error.str())
    if code in _STALE:
        return StaleError(error.str())
    if code in _NOT_STORED:
        return NotSentError(error.str())
    return final_error(error, url) or LostError(f"{error.name()}: {error.str()}")


def final_error(error: KafkaError, url: str) -> StrandlineError | None:
    """Return our error if no later try can succeed; None otherwise."""
    code, reason = error.code(), error.str()
    if code in _REFUSED:
        message = "the broker refuses this user, check user, password, mechanism and TLS"
        return InvalidError(message, url=url, reason=reason)
    if code in _NO_RIGHT:
        return InvalidError(
            "this user may not do that, see the rights on the page about Kafka",
            url=url,
            reason=reason,
        )
    if code in _TOO_LARGE:
        return InvalidError(
            "this is larger than the topic's max.message.bytes, append less at a time",
            url=url,
            reason=reason,
        )
    if code in _IMPOSSIBLE:
        message = "the brokers cannot do this, see the reason"
        return InvalidError(message, url=url, reason=reason)
    return None


def unreachable(url: str, reason: object) -> UnavailableError:
    """Return the error for brokers that do not answer."""
    return UnavailableError(
        "the brokers do not answer, check that they run and the URL, and try again",
        url=url,
        reason=str(reason),
    )
