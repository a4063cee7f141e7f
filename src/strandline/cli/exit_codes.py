"""The program's exit codes. These numbers are stable."""

from enum import IntEnum

from strandline.values import (
    ClosedError,
    ConflictError,
    CorruptError,
    DivergedError,
    FailedError,
    InvalidError,
    LeaseLostError,
    StrandlineError,
    TrimmedError,
    UnavailableError,
    UnknownError,
)


class ExitCode(IntEnum):
    """Zero is success; 1 is a negative result; higher codes are errors."""

    OK = 0
    FAILED_CHECK = 1
    USAGE = 2
    CONFLICT = 3
    UNAVAILABLE = 4
    TRIMMED = 5
    DIVERGED = 6
    CLOSED = 7
    FAILED = 8
    UNKNOWN = 9
    CORRUPT = 10
    INTERRUPTED = 130
    BROKEN_PIPE = 141


MEANINGS = {
    ExitCode.OK: "done",
    ExitCode.FAILED_CHECK: "a check has failed: `verify`, `doctor`, `backup`, `restore`",
    ExitCode.USAGE: "the call cannot succeed: bad arguments, or `InvalidError`",
    ExitCode.CONFLICT: "`ConflictError`, `LeaseLostError`: another process was first",
    ExitCode.UNAVAILABLE: "`UnavailableError`: retry later; also if the output cannot be written",
    ExitCode.TRIMMED: "`TrimmedError`: the requested records were removed",
    ExitCode.DIVERGED: "`DivergedError`: the log lost records that a cursor had passed",
    ExitCode.CLOSED: "`ClosedError`: the log was closed while the program used it",
    ExitCode.FAILED: "`FailedError`: the write is not stored",
    ExitCode.UNKNOWN: "`UnknownError`: the write is stored once or not at all",
    ExitCode.CORRUPT: "`CorruptError`: stored data is damaged",
    ExitCode.INTERRUPTED: "Ctrl-C",
    ExitCode.BROKEN_PIPE: "the reader of the output has closed it, like `head`",
}

# The most specific first: an UnknownError is a FailedError.
_CODES: tuple[tuple[type[StrandlineError], ExitCode], ...] = (
    (InvalidError, ExitCode.USAGE),
    (ConflictError, ExitCode.CONFLICT),
    (LeaseLostError, ExitCode.CONFLICT),
    (UnavailableError, ExitCode.UNAVAILABLE),
    (TrimmedError, ExitCode.TRIMMED),
    (DivergedError, ExitCode.DIVERGED),
    (ClosedError, ExitCode.CLOSED),
    (UnknownError, ExitCode.UNKNOWN),
    (FailedError, ExitCode.FAILED),
    (CorruptError, ExitCode.CORRUPT),
)


def code_of(error: StrandlineError) -> ExitCode:
    """Return the exit code for an error."""
    for kind, code in _CODES:
        if isinstance(error, kind):
            return code
    return ExitCode.FAILED
