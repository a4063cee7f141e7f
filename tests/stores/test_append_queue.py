"""Appends to one partition that wait for each other, and an interrupt of the one that serves."""

import threading

import pytest

from strandline.clock import SystemClock
from strandline.log.open_state import OpenState
from strandline.log.store import AppendRequest, Placement
from strandline.stores.append_queue import WaitingAppend, WaitingAppends
from strandline.values import Durability, UnavailableError

REQUEST = AppendRequest(drafts=())
WRITTEN = Durability.WRITTEN


class Server:
    """Stores what it takes; the first caller that serves is interrupted."""

    def __init__(self, *, takes: bool) -> None:
        self._takes = takes
        self.is_interrupted = False
        self.taken: list[WaitingAppend] = []
        self.queue = WaitingAppends(
            OpenState(), SystemClock(), "log", WRITTEN, start=self._start, serve=self._serve
        )

    def _start(self) -> None:
        threading.Thread(target=self._drain, daemon=True).start()

    def _drain(self) -> None:
        while batch := self.queue.taken():
            self.queue.settle(batch, [Placement(0, 0) for _ in batch])

    def _serve(self, _own: WaitingAppend) -> None:
        if not self.is_interrupted:
            self.is_interrupted = True
            if self._takes:
                self.taken = self.queue.taken()
            raise KeyboardInterrupt
        self._drain()


@pytest.mark.parametrize("takes", [False, True])
def test_after_an_interrupt_of_the_caller_that_serves_others_append_and_close(
    *, takes: bool
) -> None:
    server = Server(takes=takes)

    with pytest.raises(KeyboardInterrupt):
        server.queue.append(REQUEST, WRITTEN, None, may_wait=True)
    outcome = server.queue.append(REQUEST, WRITTEN, None, may_wait=True)
    server.queue.close()

    assert outcome.result() == Placement(0, 0)
    for each in server.taken:
        assert isinstance(each.future.exception(0), UnavailableError)
