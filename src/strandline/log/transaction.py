"""A transaction with the caller's rows, before its block is entered."""

from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, NoReturn


class Transaction:
    """What `Log.transaction` returns: enter it using `with` to get the connection."""

    def __init__(self, block: AbstractContextManager[Any], url: str) -> None:
        self._block = block
        self._url = url

    def __enter__(self) -> Any:
        return self._block.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        return self._block.__exit__(kind, error, trace)

    def __repr__(self) -> str:
        return f"Transaction({self._url!r})"

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"a transaction has no {name!r}, use its connection:"
            " `with log.transaction() as connection:`"
        )
