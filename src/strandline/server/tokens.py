"""Tokens with their permissions, stored in the log as digests. See design 0102."""

import hashlib
import re
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import msgspec

from strandline.clock import Clock
from strandline.log import Log, parts_of
from strandline.values import Event, InvalidError, Tenant, Topic, parse_tenant
from strandline.values.internal_topics import TOKENS_TOPIC

_SECRET_BYTES: Final = 32
_ID_BYTES: Final = 6
_PREFIX: Final = "slt_"
_EXPIRES_S_MAX: Final = 100 * 366 * 24 * 3600
_PATTERN: Final = re.compile(r"[A-Za-z0-9._*-]{1,200}")
_CREATED, _REVOKED = "token.created", "token.revoked"


class TokenScope(StrEnum):
    """What a token allows."""

    READ = "read"
    APPEND = "append"
    CONSUME = "consume"
    ADMIN = "admin"
    METRICS = "metrics"


EVERY_SCOPE: Final = frozenset(TokenScope)


@dataclass(frozen=True, slots=True)
class Token:
    """A token without its secret, which is not stored."""

    id: str
    digest: str
    """The SHA-256 of the secret, in hex."""
    scopes: frozenset[TokenScope]
    topics: tuple[str, ...]
    """Patterns of its topics, in which * matches any text."""
    tenant: Tenant | None
    created_at_us: int
    expires_at_us: int | None

    def is_valid_at(self, now_us: int) -> bool:
        """Whether it has not expired."""
        return self.expires_at_us is None or now_us < self.expires_at_us


class _StoredToken(msgspec.Struct, forbid_unknown_fields=True):
    id: str
    digest: str
    scopes: list[TokenScope]
    topics: list[str]
    tenant: str | None
    expires_at_us: int | None


class _Revoked(msgspec.Struct, forbid_unknown_fields=True):
    id: str


class TokenTable:
    """The tokens of one log, as they are now. Any thread may use it.

    They are events of an internal topic. Each request checks the end of that topic, so that a
    token that another process has revoked is refused from the next request on.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._clock: Clock = parts_of(log).clock
        self._lock = threading.Lock()
        self._by_digest: Mapping[str, Token] = {}
        self._by_id: Mapping[str, Token] = {}
        self._topic: Topic | None = None
        self._end = 0

    def create(
        self,
        scopes: Collection[TokenScope | str],
        *,
        topics: Collection[str] = ("*",),
        tenant: str | None = None,
        expires_s: int | None = None,
    ) -> tuple[str, Token]:
        """Return a new secret, which is not stored, and its token, which is durable."""
        secret = _PREFIX + self._clock.random_bytes(_SECRET_BYTES).hex()
        now_us = self._clock.now_us()
        if expires_s is not None and not 0 < expires_s <= _EXPIRES_S_MAX:
            raise InvalidError(
                "a token expires in the future, in a hundred years at the latest; without "
                "a time it never does",
                expires_s=expires_s,
            )
        token = Token(
            self._clock.random_bytes(_ID_BYTES).hex(),
            digest_of(secret),
            check_scopes(scopes),
            check_patterns(topics),
            parse_tenant(tenant),
            now_us,
            None if expires_s is None else now_us + expires_s * 1_000_000,
        )
        self._append(
            _CREATED,
            {
                "id": token.id,
                "digest": token.digest,
                "scopes": sorted(token.scopes),
                "topics": list(token.topics),
                "tenant": token.tenant,
                "expires_at_us": token.expires_at_us,
            },
        )
        return secret, token

    def revoke(self, token_id: str) -> Token:
        """Revoke a token at once and permanently; InvalidError if there is none."""
        for token in self.list():
            if token.id == token_id:
                self._append(_REVOKED, {"id": token_id})
                return token
        raise InvalidError("there is no such token, `strandline token list` shows all", id=token_id)

    def list(self) -> list[Token]:
        """Return the tokens that are not revoked, oldest first; expired ones among them."""
        self.refresh()
        return list(self._by_digest.values())

    def find(self, secret: str) -> Token | None:
        """Return the valid token of this secret, as of the last refresh; None if there is none."""
        return self.valid(digest_of(secret))

    def valid(self, digest: str) -> Token | None:
        """Return the valid token of this digest, as of the last refresh; None if there is none."""
        token = self._by_digest.get(digest)
        return token if token is not None and token.is_valid_at(self._clock.now_us()) else None

    def has(self, token_id: str) -> bool:
        """Whether the token of this id is valid, by what was read already."""
        token = self._by_id.get(token_id)
        return token is not None and token.is_valid_at(self._clock.now_us())

    def is_stale(self) -> bool:
        """Whether the topic has grown since the last refresh. Does not block on local logs."""
        topic = self._known_topic()
        return topic is not None and self._log.marks(topic, 0).high != self._end

    def refresh(self) -> None:
        """Read new records."""
        with self._lock:
            topic = self._known_topic()
            if topic is None:
                return
            known = dict(self._by_digest)
            for record in self._log.read(topic, 0, self._end):
                _apply(known, record.event, record.timestamp_us)
                self._end = record.offset + 1
            self._by_digest = known
            self._by_id = {token.id: token for token in known.values()}

    def _known_topic(self) -> Topic | None:
        if self._topic is None:
            try:
                self._topic = self._log.topic(TOKENS_TOPIC)
            except InvalidError:
                return None
        return self._topic

    def _append(self, kind: str, payload: object) -> None:
        topic = self._log.create_topic(TOKENS_TOPIC, internal=True)
        self._log.append(topic, Event(kind, payload), durability=self._log.durability_max)


def digest_of(secret: str) -> str:
    """Return the stored digest of a secret."""
    return hashlib.sha256(secret.encode()).hexdigest()


def check_scopes(scopes: Collection[TokenScope | str]) -> frozenset[TokenScope]:
    """Return these scopes; InvalidError if there are none, or for an unknown one."""
    try:
        found = frozenset(TokenScope(each) for each in scopes)
    except ValueError as error:
        raise InvalidError(
            "there is no such scope", scopes=list(scopes), known=[str(each) for each in TokenScope]
        ) from error
    if not found:
        raise InvalidError(
            "a token needs at least one scope", known=[str(each) for each in TokenScope]
        )
    return found


def check_patterns(topics: Collection[str]) -> tuple[str, ...]:
    """Return patterns of topics; InvalidError for a pattern that no topic can match."""
    for each in topics:
        if not _PATTERN.fullmatch(each):
            raise InvalidError("a pattern of topics is a name, in which * is any text", topic=each)
    if not topics:
        raise InvalidError("a token needs at least one topic, * stands for all")
    return tuple(topics)


def bearer_of(header: str) -> str | None:
    """Return the secret in a header Authorization; None if there is none."""
    scheme, _, secret = header.partition(" ")
    return secret.strip() if scheme.lower() == "bearer" and secret.strip() else None


def _apply(known: dict[str, Token], event: Event, timestamp_us: int) -> None:
    if event.kind == _REVOKED:
        revoked = msgspec.json.decode(event.payload_json, type=_Revoked).id
        for digest in [digest for digest, token in known.items() if token.id == revoked]:
            del known[digest]
    elif event.kind == _CREATED:
        stored = msgspec.json.decode(event.payload_json, type=_StoredToken)
        known[stored.digest] = Token(
            stored.id,
            stored.digest,
            frozenset(stored.scopes),
            tuple(stored.topics),
            parse_tenant(stored.tenant),
            timestamp_us,
            stored.expires_at_us,
        )
