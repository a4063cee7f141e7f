"""Methods that continue on a full disk, using pieces of the reserve."""

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from strandline.stores.disk_reserve import DiskReserve


class _WithReserve(Protocol):
    @property
    def reserve(self) -> DiskReserve: ...


class _Spending(Protocol):
    @property
    def _database(self) -> _WithReserve: ...


S = TypeVar("S", bound=_Spending)
P = ParamSpec("P")
R = TypeVar("R")


def spending(call: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Repeat a method that failed on a full disk and changed nothing, using the reserve."""

    @functools.wraps(call)
    def repeated(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._database.reserve.spend(lambda: call(self, *args, **kwargs))

    return repeated
