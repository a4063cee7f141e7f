"""Appends that need no waiting: answered as soon as they arrive, see design 0132.

A client sends the same head with every append, except for the body's length. After an append of
one event on the normal path, its head is known: another request that begins with the same bytes
has the same caller, topic and terms, so the checks of the first request are
still valid. What may change is checked each time: the token, and its number of open
requests. If anything is unusual, nothing is done here, and the normal path answers.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from starlette.responses import Response

from strandline._core import IS_COMPILED
from strandline.clock import Clock
from strandline.log import AppendTerms, AsyncLog, Receipt
from strandline.log.async_log import append_many_now, append_now
from strandline.log.async_receipts import when_reached
from strandline.log.receipts import place_of
from strandline.server.caller import Caller, RequestsUnderWay
from strandline.server.endpoint import JSON
from strandline.server.health import EndpointMetrics
from strandline.server.problems import problem_of
from strandline.server.tokens import TokenTable, bearer_of, digest_of
from strandline.values import Durability, StrandlineError, UnknownError

if TYPE_CHECKING:
    from strandline.server.call import Call

if TYPE_CHECKING or IS_COMPILED:
    from strandline._core.core import answer_of_append, events_of_json, split_request
else:
    # Without a core no head is known.
    def split_request(whole: bytes, /) -> None:
        del whole


WHOLE_REQUEST: Final = "strandline.whole_request"
"""The key of a request's scope with all of its bytes, if they arrived together and alone."""
_CREATED: Final = 201
_BODY_BYTES_MAX: Final = 64 * 1024
_HEAD_BYTES_MAX: Final = 1024
_HEADS_MAX: Final = 4096
_EVENTS_MAX: Final = 256
_REQUEST_BYTES_MAX: Final = _HEAD_BYTES_MAX + _BODY_BYTES_MAX
#: The end of the name of Content-Length, as most clients write it, and what is before that.
_LENGTH: Final = b"ength: "
_BEFORE_LENGTH: Final = b"\r\ncontent-l"
#: Requests with these headers always take the normal path.
_UNUSUAL: Final = ("cookie", "expect", "transfer-encoding", "ce-specversion")

Answer = Callable[[int, Response | bytes], None]
"""Sends an answer of this status: a response, or its body of JSON."""


class KnownHead(NamedTuple):
    """The decoded head of a request."""

    caller: Caller
    token_digest: str | None
    topic: str
    terms: AppendTerms
    level: Durability
    level_name: str


class _Taken(NamedTuple):
    """An append that waits for a sync: the receipt of its first event, and its answer callback."""

    known: KnownHead
    first: Receipt
    events: int
    begun: float
    answer: Answer


class AppendsAtOnce:
    """Makes appends of few events as soon as they arrive. For one event loop."""

    def __init__(
        self,
        log: AsyncLog,
        tokens: TokenTable,
        under_way: RequestsUnderWay,
        *,
        metrics: EndpointMetrics,
        clock: Clock,
        body_bytes_max: int,
    ) -> None:
        self._log = log
        self._tokens = tokens
        self._under_way = under_way
        self._note = metrics.note
        self._monotonic = clock.monotonic
        self._bytes_max = min(_BODY_BYTES_MAX, body_bytes_max)
        self._known: dict[bytes, KnownHead] = {}

    def remember(self, call: "Call", body: bytes, topic: str, terms: AppendTerms) -> None:
        """Remember the head of a call that has appended events to a global topic of events."""
        whole = call.request.scope.get(WHOLE_REQUEST, b"")
        if (parts := split_request(whole)) is None:
            return
        head, rest = parts
        # Check that the rest is the parsed body, so that we split the head correctly.
        if rest != body or len(head) > _HEAD_BYTES_MAX or not _is_usual(call, terms):
            return
        if not head.lower().rpartition(_LENGTH)[0].endswith(_BEFORE_LENGTH):
            return
        secret = call.request.headers.get("authorization")
        digest = None if secret is None else digest_of(bearer_of(secret) or "")
        if len(self._known) >= _HEADS_MAX:
            del self._known[next(iter(self._known))]
        level = Durability.parse(terms.get("durability", Durability.WRITTEN))
        self._known[head] = KnownHead(call.caller, digest, topic, terms, level, str(level))

    def take(self, whole: bytes, answer: Answer) -> bool:
        """Append the values of a request, if it is an append that needs no waiting.

        Calls `answer` at once, or after the sync if one is needed. Returns False for all
        other requests, and does nothing for them.
        """
        if len(whole) > _REQUEST_BYTES_MAX or (parts := split_request(whole)) is None:
            return False
        head, body = parts
        known = self._known.get(head)
        if known is None or len(body) > self._bytes_max or not self._is_admitted(known):
            return False
        begun = self._monotonic()
        events = events_of_json(body, _EVENTS_MAX)
        if events is NotImplemented or not events:
            return False
        append, value = (append_now, events[0]) if len(events) == 1 else (append_many_now, events)
        try:
            first = append(self._log, known.topic, value, known.terms)
        except StrandlineError as error:
            self._answer_error(begun, answer, error)
            return True
        if first is None:
            return False
        if known.level is Durability.DURABLE:
            self._under_way.enter(known.caller)
            taken = _Taken(known, first, len(events), begun, answer)
            when_reached(first, partial(self._answer_synced, taken))
        else:
            self._note(_CREATED, self._monotonic() - begun)
            answer(_CREATED, _answer_to(known, first, len(events)))
        return True

    def _answer_synced(self, taken: _Taken, error: BaseException | None) -> None:
        known, first, count, begun, answer = taken
        self._under_way.leave(known.caller)
        if error is None:
            self._note(_CREATED, self._monotonic() - begun)
            answer(_CREATED, _answer_to(known, first, count))
        elif isinstance(error, StrandlineError):
            self._answer_error(begun, answer, error)
        else:
            self._answer_error(begun, answer, UnknownError(error))

    def _answer_error(self, begun: float, answer: Answer, error: StrandlineError) -> None:
        problem = problem_of(error)
        self._note(problem.status_code, self._monotonic() - begun)
        answer(problem.status_code, problem)

    def _is_admitted(self, known: KnownHead) -> bool:
        digest = known.token_digest
        if digest is not None and (self._tokens.is_stale() or self._tokens.valid(digest) is None):
            return False
        return self._under_way.has_room(known.caller)


def _answer_to(known: KnownHead, first: Receipt, count: int) -> bytes:
    return answer_of_append(known.level_name, *place_of(first), count)


def _is_usual(call: "Call", terms: AppendTerms) -> bool:
    headers = call.request.headers
    if call.request.scope["http_version"] != "1.1":
        return False
    if headers.get("content-type", JSON) != JSON or any(each in headers for each in _UNUSUAL):
        return False
    if headers.get("connection", "keep-alive").lower() != "keep-alive":
        return False
    durability = terms.get("durability", Durability.WRITTEN)
    return durability is not Durability.APPLIED and terms.keys() <= {"durability"}
