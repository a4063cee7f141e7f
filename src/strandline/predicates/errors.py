"""What can be wrong with a predicate: its text, a form outside the dialect, or one row."""

from strandline.values import InvalidError


class PredicateError(InvalidError):
    """The text is no predicate on these columns: fix it at `position`.

    `position` counts characters of the text from 0.

    See docs/reference/errors/PredicateError.md.
    """

    position: int

    def __init__(self, message: str, *, position: int, text: str) -> None:
        super().__init__(message, position=position, near=text[position : position + 20], text=text)
        self.position = position


class UnsupportedPredicateError(PredicateError):
    """The text may be good SQL, but this form is not part of the dialect.

    See docs/reference/errors/UnsupportedPredicateError.md.
    """


class PredicateEvalError(InvalidError):
    """A row made the predicate fail, as it would in Spark: guard it, or use TRY_CAST.

    `row` is its place in the batch that was given.

    See docs/reference/errors/PredicateEvalError.md.
    """

    row: int

    def __init__(self, *, row: int, text: str, reason: str) -> None:
        super().__init__(
            "this predicate fails on a row, use TRY_CAST or test the value first",
            row=row,
            reason=reason,
            text=text,
        )
        self.row = row
