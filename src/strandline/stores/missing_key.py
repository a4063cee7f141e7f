"""The error for a key that has to be there and is not: never taken for one that was not put."""

from strandline.values import CorruptError


def missing_key(file: str, position: int = 0, **fields: object) -> CorruptError:
    """Return the error for what a topic keeps by key, and has lost."""
    return CorruptError(
        "what a topic keeps by key, as the cursors of its consumers, is missing: restore it from"
        " a copy, or delete the consumer",
        file=file,
        position=position,
        **fields,
    )
