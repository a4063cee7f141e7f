"""Every error a caller can meet: one class per reaction.

StrandlineError
├── InvalidError          fix the call
│   ├── DroppedError      create the topic again, or leave it: it was dropped while in use
│   └── RejectedError     fix the write: its store refused it at .epoch
├── ConflictError         another process wrote first: read again, retry
├── LeaseLostError        drop what was read of .partition: another member has it now
├── UnavailableError      retry later (.write holds what was not taken)
│   ├── NotReadyError     retry when .partition has caught up
│   ├── FullError         make room on the disk, then retry
│   └── QuotaError        a tenant's .quota is used up: see .retry_after_s
├── TrimmedError          start again from .oldest: what lay before it is gone
├── DivergedError         go back to .diverged_at: what followed it was replaced
├── ClosedError           open it again (closed, or fenced by a newer writer)
├── FailedError           this writer has failed with .cause: reopen
│   └── UnknownError      this write may or may not be stored: find out first
└── CorruptError          data is damaged at .file, .position; the rest stays readable

A message is a plain sentence that says what to do, then `key=value` pairs; the
same pairs are in `.fields`.
"""

import re
from collections.abc import Mapping

_SHOWN_CHARS_MAX = 120
#: The part of a URL between the user and the host.
_PASSWORD = re.compile(r"(?<=://)([^:/@\s]*):[^\s]*@")
# The relevant part of another program's message is at its end.
_REASON_CHARS_MAX = 2000
_REASONS = frozenset({"cause", "reason"})


def _shown(name: str, value: object) -> str:
    try:
        # ascii() makes control characters, look-alikes and lone surrogates visible.
        text = ascii(value)
    except Exception:  # noqa: BLE001 - A value that cannot be shown hides no error.
        text = f"<{type(value).__qualname__}>"
    most = _REASON_CHARS_MAX if name in _REASONS else _SHOWN_CHARS_MAX
    return text if len(text) <= most else text[:most] + "..."


def _without_password(value: object) -> object:
    """Return `value`; a URL without its password."""
    if type(value) is str and "://" in value and "@" in value:
        return _PASSWORD.sub(r"\1:***@", value)
    return value


def _named(cause: BaseException) -> str:
    return f"{type(cause).__qualname__}: {cause}"


def _portable(cause: BaseException | None) -> BaseException | None:
    """Return `cause`, or its text if another process might not know its class."""
    if cause is None or isinstance(cause, StrandlineError):
        return cause
    if type(cause).__module__ == "builtins":
        return cause
    return RuntimeError(_named(cause))


def _revive(
    kind: "type[StrandlineError]",
    args: tuple[object, ...],
    state: Mapping[str, object],
    cause: BaseException | None,
) -> "StrandlineError":
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    if cause is not None:
        error.__cause__ = cause
    return error


class StrandlineError(Exception):
    """The base class: `except StrandlineError` catches everything raised on purpose.

    Errors can be copied and pickled with their fields and their cause. A cause
    of a class foreign to both Python and Strandline is pickled as its text.

    See docs/reference/errors/StrandlineError.md.
    """

    fields: Mapping[str, object]

    def __init__(self, message: str, **fields: object) -> None:
        fields = {name: _without_password(value) for name, value in fields.items()}
        self.fields = fields
        # An empty list is useful to programs, and not in a message.
        shown = (
            (name, value)
            for name, value in fields.items()
            if not (isinstance(value, list) and not value)
        )
        pairs = " ".join(f"{name}={_shown(name, value)}" for name, value in shown)
        super().__init__(f"{message}: {pairs}" if pairs else message)

    def __reduce__(self) -> tuple[object, ...]:
        return _revive, (type(self), self.args, self.__dict__, _portable(self.__cause__))

    def __copy__(self) -> "StrandlineError":
        return _revive(type(self), self.args, self.__dict__, self.__cause__)


class InvalidError(StrandlineError):
    """The call can never succeed: fix the call.

    See docs/reference/errors/InvalidError.md.
    """


class DroppedError(InvalidError):
    """The topic was dropped since it was looked up: objects opened on it cannot be used any more.

    See docs/reference/errors/DroppedError.md.
    """


class RejectedError(InvalidError):
    """A store refused this write while applying it; nothing of it is stored.

    See docs/reference/errors/RejectedError.md.
    """

    epoch: int

    def __init__(self, epoch: int, cause: BaseException) -> None:
        super().__init__(
            "the store refused this write, fix it and write again",
            epoch=epoch,
            cause=_named(cause),
        )
        self.epoch = epoch
        self.__cause__: BaseException | None = cause


class ConflictError(StrandlineError):
    """Another process wrote first: read again, then retry.

    See docs/reference/errors/ConflictError.md.
    """


class LeaseLostError(StrandlineError):
    """This member of a group has lost `partition`: another one has it, or may take it.

    Nothing was stored, and no cursor was moved. Discard the records read of the partition:
    the unacked ones are delivered to the member that holds it now.

    See docs/reference/errors/LeaseLostError.md.
    """

    partition: int

    def __init__(self, partition: int, **fields: object) -> None:
        super().__init__(
            "this member has lost the partition, drop what it read of it: what was not acked "
            "goes to the member that holds it now",
            partition=partition,
            **fields,
        )
        self.partition = partition


class UnavailableError(StrandlineError):
    """Temporarily not possible: retry later.

    `write` is the value that was not stored, so that the caller can retry it; None if it
    was stored, or if the call has no value.

    See docs/reference/errors/UnavailableError.md.
    """

    write: object

    def __init__(self, message: str, *, write: object = None, **fields: object) -> None:
        super().__init__(message, **fields)
        self.write = write


class NotReadyError(UnavailableError):
    """This partition has not caught up yet: retry shortly.

    See docs/reference/errors/NotReadyError.md.
    """

    partition: int

    def __init__(self, partition: int, **fields: object) -> None:
        super().__init__(
            "this partition is not ready yet, retry shortly", partition=partition, **fields
        )
        self.partition = partition


class FullError(UnavailableError):
    """The disk is full, and nothing of this is stored: free space, then retry.

    Acks, leases, trims, retention and drops still work, within the log's reserve. The log
    need not be opened again.

    See docs/reference/errors/FullError.md.
    """

    def __init__(self, path: str, reason: str, *, write: object = None) -> None:
        super().__init__(
            "the disk is full and nothing of this was stored, make room and try again: trim or"
            " drop topics, which still works, or free space elsewhere",
            write=write,
            path=path,
            reason=reason,
        )


class QuotaError(UnavailableError):
    """A quota of a tenant is used up, and nothing of this is stored.

    `quota` is its name, `used` and `limit` are its numbers. After `retry_after_s` the same
    call may succeed, if the quota is a rate; None if something has to be removed first.

    See docs/reference/errors/QuotaError.md.
    """

    quota: str
    used: int
    limit: int
    retry_after_s: float | None

    def __init__(
        self,
        quota: str,
        used: int,
        limit: int,
        *,
        tenant: str,
        retry_after_s: float | None = None,
        write: object = None,
    ) -> None:
        todo = (
            "trim or drop topics of the tenant, or have the quota raised"
            if retry_after_s is None
            else "try again after retry_after_s, or have the quota raised"
        )
        fields: dict[str, object] = {"tenant": tenant, "quota": quota, "used": used, "limit": limit}
        if retry_after_s is not None:
            fields["retry_after_s"] = retry_after_s
        super().__init__(
            f"a quota of this tenant is used up and nothing of this was stored, {todo}",
            write=write,
            **fields,
        )
        self.quota = quota
        self.used = used
        self.limit = limit
        self.retry_after_s = retry_after_s


class TrimmedError(StrandlineError):
    """The requested records were removed: start again from `oldest`.

    See docs/reference/errors/TrimmedError.md.
    """

    oldest: int

    def __init__(self, oldest: int, **fields: object) -> None:
        super().__init__(
            "these records were trimmed, start again from the oldest one kept",
            oldest=oldest,
            **fields,
        )
        self.oldest = oldest


class DivergedError(StrandlineError):
    """The log lost unsynced records that this position had passed.

    Unlike after a TrimmedError, the reader has to go back. Undo what was derived from
    records at or after `diverged_at` before reading on from there.

    See docs/reference/errors/DivergedError.md.
    """

    diverged_at: int

    def __init__(self, diverged_at: int, **fields: object) -> None:
        super().__init__(
            "the log lost records that this position had passed, "
            "undo what came from them and go back to where it diverged",
            diverged_at=diverged_at,
            **fields,
        )
        self.diverged_at = diverged_at


class ClosedError(StrandlineError):
    """Closed by its owner, or fenced by a newer writer: open again.

    See docs/reference/errors/ClosedError.md.
    """


class FailedError(StrandlineError):
    """This writer has failed with `cause` and accepts no more writes: reopen.

    See docs/reference/errors/FailedError.md.
    """

    _reaction = "this writer has failed and takes no more writes, open it again"

    def __init__(self, cause: BaseException) -> None:
        super().__init__(self._reaction, cause=_named(cause))
        self.__cause__: BaseException | None = cause

    @property
    def cause(self) -> BaseException:
        """The first error."""
        cause = self.__cause__
        assert cause is not None
        return cause


class UnknownError(FailedError):
    """It is unknown whether this write is stored.

    Reopen and read back, or repeat it with the same idempotency key.

    See docs/reference/errors/UnknownError.md.
    """

    _reaction = (
        "this write may or may not be stored, read back or repeat it with the same idempotency key"
    )


class CorruptError(StrandlineError):
    """Stored data is damaged; everything else stays readable.

    A store always names the file and the position in it. They are None only if
    a single value cannot be decoded after it was read from its store.

    See docs/reference/errors/CorruptError.md.
    """

    file: str | None
    position: int | None

    def __init__(
        self, message: str, *, file: str | None, position: int | None, **fields: object
    ) -> None:
        super().__init__(message, file=file, position=position, **fields)
        self.file = file
        self.position = position
