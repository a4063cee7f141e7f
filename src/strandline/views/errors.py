"""Errors of views, besides those of the log.

InvalidError
└── RefusedError     fix the write: the view skipped its record
FailedError
└── StoppedError     fix .cause, then rebuild or reassign .partition
"""

import threading

from strandline.values import FailedError, InvalidError


class RefusedError(InvalidError):
    """A record that breaks a rule of the view. Raise it in `apply` or `check`.

    If raised in `apply`, before any change of the state, the record is skipped: it stays in
    the log, and every view of this version skips it, too.

    See docs/reference/errors/RefusedError.md.
    """


class StoppedError(FailedError):
    """This partition of the view failed with `cause` at `offset`, and answers no more.

    See docs/reference/errors/StoppedError.md.
    """

    partition: int
    offset: int | None

    def __init__(self, partition: int, offset: int | None, cause: BaseException) -> None:
        self._reaction = (
            f"partition {partition} of this view has stopped at offset {offset}, fix the "
            "cause, then rebuild it or assign it again"
        )
        super().__init__(cause)
        self.partition = partition
        self.offset = offset


def check_no_interrupt(error: BaseException) -> None:
    """Raise an interrupt of the main thread; all else comes from the user's function."""
    is_interrupt = isinstance(error, KeyboardInterrupt)
    if is_interrupt and threading.current_thread() is threading.main_thread():
        raise error
