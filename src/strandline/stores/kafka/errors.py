"""What Kafka's errors mean to the caller of a log."""

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
#: Nothing is wrong with the request, and nothing of it was stored.
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
#: Of a leader that was replaced: what was sent to it may be stored.
_STALE: Final = frozenset(
    {
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.UNKNOWN_LEADER_EPOCH,
    }
)
_THERE: Final = frozenset({KafkaError.TOPIC_ALREADY_EXISTS, KafkaError.INVALID_PARTITIONS})
#: What a consumer says that may not use groups.
NO_GROUPS: Final = KafkaError.GROUP_AUTHORIZATION_FAILED
#: No error: a consumer has come to the end.
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
    """There is no such topic, or not yet."""


class StaleError(LostError):
    """The client knew an old leader, and must look again."""


class ThereError(Exception):
    """The topic, or the partition, is there already."""


class GoneError(Exception):
    """What is read lies before the first message that is kept."""


def translated(error: KafkaError, url: str) -> Exception:
    """Return what an error of the client means: one of a log, or one that is tried again."""
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
    """Return the error of a log for what no later try changes; None for all else."""
    code, reason = error.code(), error.str()
    if code in _REFUSED:
        say = "the broker does not let this user in, check user, password, mechanism and TLS"
        return InvalidError(say, url=url, reason=reason)
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
        say = "the brokers cannot do this, see the reason"
        return InvalidError(say, url=url, reason=reason)
    return None


def unreachable(url: str, reason: object) -> UnavailableError:
    """Return the error for brokers that do not answer."""
    return UnavailableError(
        "the brokers do not answer, check that they run and the URL, and try again",
        url=url,
        reason=str(reason),
    )
