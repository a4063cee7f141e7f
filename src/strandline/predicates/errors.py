"""The errors of predicates: in the text, an unsupported form, or on one row."""

from strandline.values import InvalidError


class PredicateError(InvalidError):
    """The text is not a valid predicate on these columns: fix it at `position`.

    `position` counts characters of the text from 0.

    See docs/reference/errors/PredicateError.md.
    """

    position: int

    def __init__(self, message: str, *, position: int, text: str) -> None:
        super().__init__(message, position=position, near=text[position : position + 20], text=text)
        self.position = position


class UnsupportedPredicateError(PredicateError):
    """The text may be valid SQL, but this form is not part of the dialect.

    See docs/reference/errors/UnsupportedPredicateError.md.
    """


class PredicateEvalError(InvalidError):
    """The predicate failed on a row, as it would in Spark: add a guard, or use TRY_CAST.

    `row` is the index of the row in the batch.

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
