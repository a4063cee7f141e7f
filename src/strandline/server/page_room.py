"""The memory that pages take until they are sent, bounded over all requests. See design 0100."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from starlette.responses import Response
from starlette.types import Scope

from strandline.server.call import PAGE_BYTES_MAX
from strandline.server.problems import RequestError, problem_of

_PAGES: Final = 32
_SMALL_BYTES: Final = 256 * 1024
"""Answers up to this size always pass."""
_SMALL_PAGE_BYTES: Final = 64 * 1024
"""The records of a page whose answer is small, in whatever format."""
_TURN_S: Final = 2.0
_TAKEN: Final = "strandline.page_room"


class PageRoom:
    """Room for so many full pages. For one event loop.

    A request whose page does not fit waits for its turn without the page, which is read again.
    If there is no turn in time, it gets a small page, or 503 if that has one large record.
    """

    def __init__(self, page_bytes_max: int) -> None:
        self._bytes_max = _PAGES * page_bytes_max
        self._taken = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def answer(
        self, scope: Scope, respond: Callable[[], Awaitable[Response]], *, repeats: bool
    ) -> Response:
        """Return an answer that has room, which `release` gives back once it was sent.

        What does not repeat, because it takes effect, passes in any case.
        """
        if not repeats and not self._fits(_SMALL_BYTES):
            scope[PAGE_BYTES_MAX] = _SMALL_PAGE_BYTES
        response = await respond()
        size = _size(response)
        if size <= _SMALL_BYTES:
            return response
        if not repeats or (self._fits(size) and not self._waiting):
            self._take(scope, size)
            return response
        del response
        if not await self._has_turn(scope, size):
            scope[PAGE_BYTES_MAX] = _SMALL_PAGE_BYTES
        response = await respond()
        size, taken = _size(response), scope.get(_TAKEN, 0)
        if taken:
            self._take(scope, size - taken)
        elif size > _SMALL_BYTES:
            return problem_of(
                RequestError(
                    503, "too many pages wait to be read by their clients", {"retry-after": "1"}
                )
            )
        return response

    def release(self, scope: Scope) -> None:
        """Give back what the answer to a request has taken."""
        self._taken -= scope.pop(_TAKEN, 0)
        while self._waiting and self._fits(self._waiting[0][0]):
            size, turn = self._waiting.popleft()
            # Taken here, so that no other request takes it before the waiting one runs.
            self._taken += size
            turn.set_result(None)

    def _fits(self, size: int) -> bool:
        return not self._taken or self._taken + size <= self._bytes_max

    def _take(self, scope: Scope, size: int) -> None:
        self._taken += size
        scope[_TAKEN] = scope.get(_TAKEN, 0) + size

    async def _has_turn(self, scope: Scope, size: int) -> bool:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = size, turn
        self._waiting.append(waiting)
        try:
            await asyncio.wait({turn}, timeout=_TURN_S)
        finally:
            if turn.done():
                scope[_TAKEN] = size
            else:
                self._waiting.remove(waiting)
        return turn.done()


def _size(response: Response) -> int:
    """Return the size of an answer; one that is sent in pieces has no body."""
    return len(getattr(response, "body", b""))
