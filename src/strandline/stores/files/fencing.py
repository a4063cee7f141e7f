"""The error of a writer whose partition a newer writer has taken over."""

from strandline.stores.files.place import Place
from strandline.values import ClosedError, FailedError, UnknownError

_MESSAGE = "a newer writer has taken over the partition and fenced this one, open the log again"


class FencedError(ClosedError):
    """This writer was fenced: nothing that it writes counts any more."""

    def __init__(self, place: Place) -> None:
        super().__init__(_MESSAGE, topic=place.topic.name, partition=place.partition)


def fenced(error: FailedError) -> ClosedError | None:
    """Return the error to raise for a failure caused by a newer writer; None for other failures.

    A write that was being made keeps its UnknownError.
    """
    cause = error.__cause__
    if isinstance(cause, FencedError) and not isinstance(error, UnknownError):
        return ClosedError(_MESSAGE, **cause.fields)
    return None
