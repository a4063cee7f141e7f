"""What a writer raises after a newer one has taken its partition over."""

from strandline.stores.files.place import Place
from strandline.values import ClosedError, FailedError, UnknownError

_MESSAGE = "a newer writer has taken the partition over and fenced this one, open the log again"


class FencedError(ClosedError):
    """Nothing that this writer writes counts any more."""

    def __init__(self, place: Place) -> None:
        super().__init__(_MESSAGE, topic=place.topic.name, partition=place.partition)


def fenced(error: FailedError) -> ClosedError | None:
    """Return what a caller gets of a failure that a newer writer has caused; None for others.

    A write that was on its way keeps its UnknownError.
    """
    cause = error.__cause__
    if isinstance(cause, FencedError) and not isinstance(error, UnknownError):
        return ClosedError(_MESSAGE, **cause.fields)
    return None
