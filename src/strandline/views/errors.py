"""What a view raises besides the errors of the log.

InvalidError
└── RefusedError     fix the write: the view passed its record over
FailedError
└── StoppedError     fix .cause, then rebuild or reassign .partition
"""

from strandline.values import FailedError, InvalidError


class RefusedError(InvalidError):
    """A record that breaks a rule of the view. Raise it in `apply` or `check`.

    Raised in `apply`, before anything of the state is changed, the record is passed
    over: it stays in the log, and every view of this version passes it over alike.

    See docs/reference/errors/RefusedError.md.
    """


class StoppedError(FailedError):
    """This partition of the view met `cause` at `offset`, and answers no more.

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
