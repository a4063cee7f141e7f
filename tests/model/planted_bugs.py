"""Bugs to plant in the write path, to show that schedules catch them."""

from strandline.writes.bracketed import BracketedChannel, BracketedDrain
from strandline.writes.channel import Channel, Item
from strandline.writes.coordinator import Coordinator
from strandline.writes.drain import Drain
from strandline.writes.stage import Stage
from strandline.writes.storage import Storage
from strandline.writes.subscriber import Subscriber, Subscribers
from tests.planting import Bug

COORDINATOR_BUGS = [
    Bug("no thread is woken to work next", Stage, "attempt", "self.wake_next()", "pass"),
    Bug("what arrives during a drain is forgotten", Drain, "run", "self.pass_on()", "pass"),
    Bug("the pass-on wakes no thread", Drain, "pass_on", "self._standby.wake()", "pass"),
    Bug(
        "written before it is stored",
        Storage,
        "flush_frozen",
        "entry = frozen[0]",
        "_; mark.value = entry[1].stop - 1",
    ),
    Bug(
        "a failed flush is tried again",
        Storage,
        "flush_frozen",
        "raise self._fail(...)",
        "snapshot = self._flusher.flush(entry[0], entry[1])",
    ),
    Bug(
        "durable covers what was written during the sync",
        Storage,
        "_sync",
        "_.advance(target)",
        "self.durable.mark.advance(self.written.mark.value)",
    ),
    Bug(
        "a waiter enters its name too late",
        Stage,
        "reach",
        "while not self.attempt(...): ...",
        "while self.mark.value < epoch or self.rounds.ended < turn:\n"
        "    if not waiter.wait(deadline):\n"
        "        raise UnavailableError('it took too long')",
    ),
    Bug("a write handed back stays queued", Channel, "withdraw", "self._remove(...)", "pass"),
    Bug("refused writes are flushed", Drain, "freeze", "not self._is_fresh", "False"),
    Bug(
        "stop forgets what is queued",
        Drain,
        "finish",
        "self._guarded_round(...)",
        "break",
    ),
    Bug("stop does not sync", Storage, "finish", "epoch if durable else requested", "requested"),
    Bug(
        "stop leaves while the flusher works",
        Coordinator,
        "_finish",
        "self._storage.wait_idle(...)",
        "pass",
    ),
    Bug(
        "stop hides the failure",
        Coordinator,
        "stop",
        "raise FailedError(...)",
        "return",
    ),
    Bug(
        "a flush on a shared store is acknowledged early",
        BracketedDrain,
        "_drain_inside",
        "self.freeze(...)",
        "for each in outcomes: each.settle(None)\n_",
    ),
    Bug(
        "a bracket is not left after a failure",
        BracketedDrain,
        "_drain_inside",
        "self._leave(failure)",
        "failure or _",
    ),
    Bug(
        "an expired write is forgotten",
        BracketedDrain,
        "_hand_back",
        "_.refuse(...)",
        "pass",
    ),
    Bug(
        "a bracket for one write is not left after a failure",
        BracketedDrain,
        "_write_inside",
        "self._leave(failure)",
        "failure or _",
    ),
    Bug(
        "a bracket for one write is left without a flush",
        BracketedDrain,
        "_write_inside",
        "not storage.flush_frozen()",
        "False",
    ),
    Bug(
        "a failed flush of one write goes unsaid",
        BracketedDrain,
        "_write_inside",
        "error = error or _unknown(...)",
        "pass",
    ),
    Bug(
        "one write is taken where the store could not be locked",
        BracketedChannel,
        "write",
        "refused(...)",
        "WriteReceipt(self.storage, drain.epoch, None)",
    ),
    Bug(
        "one write overtakes those queued before it",
        BracketedChannel,
        "write",
        "self._items",
        "()",
    ),
    Bug(
        "what arrives during a bracket for one write is forgotten",
        BracketedChannel,
        "write",
        "drain.pass_on()",
        "pass",
    ),
    Bug(
        "a wait to be durable is not served after a bracket",
        BracketedDrain,
        "_drain_inside",
        "self.storage.durable.call_next()",
        "pass",
    ),
    Bug(
        "who waits to be durable is moved to no list",
        Item,
        "move",
        "self.durable_waiters",
        "()",
    ),
    Bug(
        "what is handed over is left to another thread",
        Channel,
        "hand_over",
        "self.storage.request_queued()",
        "pass",
    ),
    Bug(
        "the newest write goes first",
        Channel,
        "_head",
        "return self._items[0]",
        "return self._items[-1]",
    ),
    Bug("room in the queue is not announced", Channel, "_remove", "waiter.wake()", "pass"),
    Bug(
        "a resumed channel is not looked at",
        Channel,
        "resume",
        "self._drain.run(...)",
        "pass",
    ),
    Bug(
        "a subscriber is added after its view",
        Subscribers,
        "add",
        "subscriber.begin(...)",
        "_; subscriber._seen = 10**9",
    ),
    Bug(
        "an older view replaces a newer",
        Subscriber,
        "offer",
        "view.version <= self._seen",
        "False",
    ),
    Bug(
        "epochs beyond the frozen count as written",
        Drain,
        "freeze_for",
        "_ if self._is_fresh else self.epoch",
        "self.epoch",
    ),
]
