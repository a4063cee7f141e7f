"""What tenants may use of a log: checked before anything is stored. See design 0124.

Each tenant's quota is a value in the keyed area of an internal topic. So is its token bucket,
from which all processes draw what they may append in a second. A process reads them once a
second, and only for tenants for which it appends.
"""

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import msgspec

from strandline.clock import Clock
from strandline.log.store import Store, StoredTopic, still_there
from strandline.log.topics import is_internal_name
from strandline.values import (
    ConflictError,
    CorruptError,
    InvalidError,
    Mode,
    Tenant,
    TopicSettings,
    parse_tenant,
)
from strandline.values.arguments import check_limit, check_options
from strandline.values.errors import QuotaError
from strandline.values.internal_topics import QUOTAS_TOPIC
from strandline.values.quota import Quota, QuotaLimits, QuotaUsage
from strandline.values.topic import Unchanged

QUOTA_CHECK_S: Final = 1.0
"""How often an appending process reads its tenants' quotas."""
_RESCAN_S = 0.1
#: A process draws one second's limit divided by this at a time.
_SHARE = 4
_TRIES = 100
_RATES = ("records_per_s", "bytes_per_s")
_encode = msgspec.json.encode
_decode_quota = msgspec.json.Decoder(Quota).decode


class _Bucket(msgspec.Struct, frozen=True):
    """How much may still be appended, at a moment."""

    records: float
    bytes: float
    at_us: int


_decode_bucket = msgspec.json.Decoder(_Bucket).decode


class _Known:
    """What this process has cached about one tenant."""

    __slots__ = ("added", "drawn_at", "fresh_until", "left", "quota", "scanned_at", "size")

    def __init__(self) -> None:
        self.quota = Quota()
        self.fresh_until = 0.0
        #: The size of its topics when last measured, and what this process has added since.
        self.size = self.added = 0
        self.scanned_at = float("-inf")
        #: Records and bytes drawn from the bucket and not used yet.
        self.left = (0.0, 0.0)
        self.drawn_at = 0.0


class Quotas:
    """Checks tenants' appends against their quotas, and changes quotas. Any thread may use it."""

    def __init__(self, store: Store[StoredTopic], clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[Tenant, _Known] = {}
        self._is_elsewhere = store.capabilities.has_own_quotas
        #: How often a call was refused.
        self.refusals: int = 0

    # --- what is appended ---

    def is_free(self, tenant: Tenant | None) -> bool:
        """Whether an append for this tenant needs no read of the store."""
        if tenant is None or self._is_elsewhere:
            return True
        known = self._known.get(tenant)
        return (
            known is not None
            and known.quota.is_empty
            and self._clock.monotonic() < known.fresh_until
        )

    def admit(self, topic: StoredTopic, tenant: Tenant, records: int, size_bytes: int) -> None:
        """Return if an append for this tenant is within its quota, else raise QuotaError."""
        if self.is_free(tenant) or is_internal_name(topic.topic.name):
            return
        with self._lock:
            known = self._fresh(tenant)
            if known.quota.is_empty:
                return
            try:
                if known.quota.bytes_max is not None:
                    self._check_size(tenant, known, known.quota.bytes_max, size_bytes)
                if known.quota.has_rate:
                    self._draw(tenant, known, records, size_bytes)
            except QuotaError as error:
                self.refusals += 1
                # Nothing was stored: the error hands the caller's values back.
                error.write = records
                raise
            known.added += size_bytes

    def admit_topic(self, tenant: Tenant | None, name: str) -> None:
        """Return if this tenant may create another topic, else raise QuotaError."""
        if tenant is None or self._is_elsewhere or is_internal_name(name):
            return
        with self._lock:
            most = self._load(tenant).topics_max
        if most is None or self._store.find_topic(tenant, name) is not None:
            return
        count = len(self._topics_of(tenant))
        if count >= most:
            self.refusals += 1
            raise QuotaError("topics_max", count, most, tenant=tenant)

    def _fresh(self, tenant: Tenant) -> _Known:
        known = self._known.setdefault(tenant, _Known())
        now = self._clock.monotonic()
        if now >= known.fresh_until:
            known.quota = self._load(tenant)
            known.fresh_until = now + QUOTA_CHECK_S
        return known

    def _check_size(self, tenant: Tenant, known: _Known, most: int, size_bytes: int) -> None:
        now = self._clock.monotonic()
        if now >= known.scanned_at + QUOTA_CHECK_S:
            self._scan(tenant, known, now)
        if known.size + known.added + size_bytes > most:
            if now >= known.scanned_at + _RESCAN_S:
                self._scan(tenant, known, now)
            used = known.size + known.added
            if used + size_bytes > most:
                raise QuotaError("bytes_max", used, most, tenant=tenant)

    def _scan(self, tenant: Tenant, known: _Known, now: float) -> None:
        known.size, known.added, known.scanned_at = self._size_of(tenant), 0, now

    def _draw(self, tenant: Tenant, known: _Known, records: int, size_bytes: int) -> None:
        """Deduct an append from what was drawn; draw more if that is not enough."""
        wanted = (float(records), float(size_bytes))
        now = self._clock.monotonic()
        if now >= known.drawn_at + QUOTA_CHECK_S:
            known.left = (0.0, 0.0)
        if not _covers(known.left, wanted, known.quota):
            drawn = self._draw_more(tenant, known.quota, _minus(wanted, known.left))
            known.left = (known.left[0] + drawn[0], known.left[1] + drawn[1])
            known.drawn_at = now
        known.left = _minus(known.left, wanted)

    def _draw_more(
        self, tenant: Tenant, quota: Quota, needed: tuple[float, float]
    ) -> tuple[float, float]:
        topic = self._topic()
        if topic is None:
            return needed
        key = f"rate/{tenant}"
        for _ in range(_TRIES):
            raw = self._store.get_key(topic, key)
            bucket = self._filled(raw, quota)
            records = _drawn(
                "records_per_s", tenant, quota.records_per_s, bucket.records, needed[0]
            )
            size = _drawn("bytes_per_s", tenant, quota.bytes_per_s, bucket.bytes, needed[1])
            rest = _Bucket(bucket.records - records, bucket.bytes - size, bucket.at_us)
            try:
                if self._store.put_key(topic, key, _encode(rest), raw):
                    return records, size
            except InvalidError:
                # Inside the caller's transaction the bucket cannot be updated.
                return needed
        raise ConflictError("many processes append for this tenant at once, try again")

    def _filled(self, raw: bytes | None, quota: Quota) -> _Bucket:
        """Return the bucket refilled since it was stored, up to one second's limit."""
        now_us = self._clock.now_us()
        known = None
        if raw is not None:
            try:
                known = _decode_bucket(raw)
            except msgspec.MsgspecError:
                known = None  # It only counts the last second.
        passed_s = 1.0 if known is None else (now_us - known.at_us) / 1_000_000
        if known is None or passed_s < -1.0:
            known, passed_s = _Bucket(0.0, 0.0, now_us), 1.0
        passed_s = max(0.0, passed_s)
        most = (quota.records_per_s or 0, quota.bytes_per_s or 0)
        return _Bucket(
            min(most[0], known.records + passed_s * most[0]),
            min(most[1], known.bytes + passed_s * most[1]),
            max(now_us, known.at_us),
        )

    # --- quotas ---

    def change(self, of: str, named: QuotaLimits) -> QuotaUsage:
        """Change the given limits."""
        tenant = parse_tenant(of)
        if tenant is None:
            raise InvalidError("a quota belongs to a tenant, name one", tenant=None)
        self._check_here()
        if self._store.mode is not Mode.WRITE:
            raise InvalidError(
                "the log was opened in a mode that does not allow this, open it with mode='write'",
                mode=str(self._store.mode),
            )
        check_options("set_quota", named, QuotaLimits.__optional_keys__)
        limits = {
            name: check_limit(name, limit, 1 if name in _RATES else 0)
            for name, limit in named.items()
            if not isinstance(limit, Unchanged)
        }
        if not limits:
            raise InvalidError(
                "name a limit to change", limits=sorted(QuotaLimits.__optional_keys__)
            )
        topic = self._topic() or self._made()
        for _ in range(_TRIES):
            raw = self._store.get_key(topic, str(tenant))
            changed = replace(_loaded(raw), **limits)
            if self._store.put_key(topic, str(tenant), _encode(changed), raw):
                self._known.pop(tenant, None)
                return self._usage(tenant, changed)
        raise ConflictError("other processes change this quota at once, try again")

    def all(self) -> Sequence[QuotaUsage]:
        """Return every tenant's quota, sorted by tenant."""
        self._check_here()
        topic = self._topic()
        if topic is None:
            return []
        found = self._store.keys(topic)
        quotas = {Tenant(key): _loaded(raw) for key, raw in found.items() if "/" not in key}
        return [
            self._usage(tenant, quota)
            for tenant, quota in sorted(quotas.items())
            if not quota.is_empty
        ]

    def _check_here(self) -> None:
        self._store.check_open()
        if self._is_elsewhere:
            raise InvalidError(
                "set quotas on the server that has the log, they hold for its remote callers, too"
            )

    def _usage(self, tenant: Tenant, quota: Quota) -> QuotaUsage:
        return QuotaUsage(tenant, quota, self._size_of(tenant), len(self._topics_of(tenant)))

    def _load(self, tenant: Tenant) -> Quota:
        topic = self._topic()
        return Quota() if topic is None else _loaded(self._store.get_key(topic, str(tenant)))

    def _topic(self) -> StoredTopic | None:
        return self._store.find_topic(None, QUOTAS_TOPIC)

    def _made(self) -> StoredTopic:
        return self._store.create_topic(QUOTAS_TOPIC, None, TopicSettings())

    def _topics_of(self, tenant: Tenant) -> Sequence[StoredTopic]:
        return [
            each
            for each in self._store.topics()
            if each.topic.tenant == tenant and not is_internal_name(each.topic.name)
        ]

    def _size_of(self, tenant: Tenant) -> int:
        def look(topic: StoredTopic) -> int:
            return sum(
                segment.size_bytes
                for number in range(topic.settings.partitions)
                for segment in self._store.segments(topic, number)
            )

        own = (each for each in self._store.topics() if each.topic.tenant == tenant)
        return sum(still_there(own, look))


def _loaded(raw: bytes | None) -> Quota:
    try:
        return Quota() if raw is None else _decode_quota(raw)
    except msgspec.MsgspecError as error:
        raise CorruptError(
            "a quota cannot be read, set it again", file=None, position=None, reason=str(error)
        ) from error


def _covers(left: tuple[float, float], wanted: tuple[float, float], quota: Quota) -> bool:
    limits = (quota.records_per_s, quota.bytes_per_s)
    return all(
        limit is None or have >= need
        for limit, have, need in zip(limits, left, wanted, strict=True)
    )


def _minus(first: tuple[float, float], second: tuple[float, float]) -> tuple[float, float]:
    return first[0] - second[0], first[1] - second[1]


def _drawn(name: str, tenant: Tenant, limit: int | None, there: float, needed: float) -> float:
    """Return how much to take of what is available; QuotaError if that is not enough.

    An append larger than one second's limit is admitted when the bucket is full. The bucket is
    negative then, until it has refilled.
    """
    if limit is None:
        return 0.0
    if needed <= 0:
        return 0.0
    least = min(needed, float(limit))
    if there < least:
        after_s = round((least - there) / limit + 0.0005, 3)
        used = round(limit - there)
        raise QuotaError(name, used, limit, tenant=tenant, retry_after_s=after_s)
    return max(needed, min(there, limit / _SHARE))
