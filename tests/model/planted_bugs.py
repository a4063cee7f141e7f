"""Bugs to plant, in order to see that a checker catches them.

A bug is a method of the real code with a piece of its text replaced. When the
code changes so that the piece is gone, planting fails, and the bug has to be
planted anew.
"""

import contextlib
import inspect
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from strandline.writes.bracketed import BracketedChannel, BracketedDrain
from strandline.writes.channel import Channel, Item
from strandline.writes.coordinator import Coordinator
from strandline.writes.drain import Drain
from strandline.writes.stage import Stage
from strandline.writes.storage import Storage
from strandline.writes.subscriber import Audience, Subscriber


@dataclass(frozen=True)
class Bug:
    """`new` in place of `old` in the method `name` of `owner`."""

    title: str
    owner: type
    name: str
    old: str
    new: str

    @contextlib.contextmanager
    def planted(self) -> Iterator[None]:
        """Have the bug in the code for as long as the block runs."""
        healthy = self.owner.__dict__[self.name]
        source = textwrap.dedent(inspect.getsource(healthy))
        assert self.old in source, f"plant this bug anew: {self.title}"
        file = inspect.getfile(healthy)
        code = compile(source.replace(self.old, self.new), file, "exec")
        names: dict[str, object] = {}
        exec(code, sys.modules[self.owner.__module__].__dict__, names)  # noqa: S102 - Our own text.
        setattr(self.owner, self.name, names[self.name])
        try:
            yield
        finally:
            setattr(self.owner, self.name, healthy)


COORDINATOR_BUGS = [
    Bug("nobody is woken to work next", Stage, "attempt", "self.wake_next()", "pass"),
    Bug("what arrives during a drain is forgotten", Drain, "run", "self.pass_on()", "pass"),
    Bug("the pass-on wakes nobody", Drain, "pass_on", "self._standby.wake()", "pass"),
    Bug(
        "written before it is stored",
        Storage,
        "flush_frozen",
        "entry = frozen[0]\n",
        "entry = frozen[0]\n        mark.value = entry[1].stop - 1\n",
    ),
    Bug(
        "a failed flush is tried again",
        Storage,
        "flush_frozen",
        "raise self._fail(exc)",
        "snapshot = self._flusher.flush(entry[0], entry[1])",
    ),
    Bug(
        "durable covers what was written during the sync",
        Storage,
        "_sync",
        "self.durable.mark.advance(target)",
        "self.durable.mark.advance(self.written.mark.value)",
    ),
    Bug(
        "a waiter enters its name too late",
        Stage,
        "reach",
        "while not self.attempt(epoch, turn):",
        "while self.mark.value < epoch or self.ended < turn:",
    ),
    Bug("a write handed back stays queued", Channel, "withdraw", "self._remove(item)", "pass"),
    Bug("refused writes are flushed", Drain, "freeze", "if not self._is_fresh:", "if False:"),
    Bug(
        "stop forgets what is queued",
        Drain,
        "finish",
        "self._guarded_round(may_wait=True)",
        "break",
    ),
    Bug("stop does not sync", Storage, "finish", "epoch if durable else asked", "asked"),
    Bug(
        "stop leaves while the flusher works",
        Coordinator,
        "_finish",
        "self._storage.come_to_rest(deadline)",
        "pass",
    ),
    Bug(
        "stop hides the failure",
        Coordinator,
        "stop",
        "raise FailedError(self._ending.cause)",
        "return",
    ),
    Bug(
        "a flush on a shared store is acknowledged early",
        BracketedDrain,
        "_drain_inside",
        "self.freeze(_BRACKET)",
        "[self.storage.clock] and [o.tell(None) for o in outcomes]; self.freeze(_BRACKET)",
    ),
    Bug(
        "a bracket is not left after a failure",
        BracketedDrain,
        "_drain_inside",
        "interrupt = self._leave(failure)",
        "interrupt = failure or self._leave(failure)",
    ),
    Bug(
        "an expired write is forgotten",
        BracketedDrain,
        "_hand_back",
        "item.receipt.refuse(",
        "bool(",
    ),
    Bug(
        "a bracket for one write is not left after a failure",
        BracketedDrain,
        "_write_inside",
        "interrupt = self._leave(failure)",
        "interrupt = failure or self._leave(failure)",
    ),
    Bug(
        "a bracket for one write is left without a flush",
        BracketedDrain,
        "_write_inside",
        "if not storage.flush_frozen():",
        "if False:",
    ),
    Bug(
        "a failed flush of one write goes unsaid",
        BracketedDrain,
        "_write_inside",
        "error = error or _unknown(failure)",
        "pass",
    ),
    Bug(
        "one write is taken where the store could not be locked",
        BracketedDrain,
        "write_now",
        "error=_handed_back(write, channel, exc)",
        "_epoch=self.epoch",
    ),
    Bug(
        "one write overtakes those queued before it",
        BracketedChannel,
        "write",
        "if self._items or",
        "if",
    ),
    Bug(
        "what arrives during a bracket for one write is forgotten",
        BracketedChannel,
        "write",
        "drain.pass_on()",
        "pass",
    ),
    Bug(
        "who waits to be durable is not called after a bracket",
        BracketedDrain,
        "_drain_inside",
        "self.storage.durable.call_next()",
        "pass",
    ),
    Bug(
        "who waits to be durable is moved to no list",
        Item,
        "move",
        "for waiter in self.patient]",
        "for waiter in ()]",
    ),
    Bug(
        "what is handed over is left to somebody else",
        Channel,
        "hand_over",
        "self.storage.ask_for_queued()",
        "pass",
    ),
    Bug(
        "the newest write goes first",
        Channel,
        "_head",
        "return self._items[0]",
        "return self._items[-1]",
    ),
    Bug("room in the queue is not announced", Channel, "_remove", "waiter.wake()", "waiter.leads"),
    Bug(
        "a resumed channel is not looked at",
        Channel,
        "resume",
        "self._drain.run(may_wait=False)",
        "pass",
    ),
    Bug(
        "a subscriber is added after its view",
        Audience,
        "add",
        "subscriber.begin(view())",
        "subscriber.begin(view()); subscriber._seen = 10**9",
    ),
    Bug(
        "an older view replaces a newer",
        Subscriber,
        "offer",
        "if view.version <= self._seen:",
        "if False:",
    ),
    Bug(
        "epochs beyond the frozen count as written",
        Drain,
        "freeze_for",
        "return self._start - 1 if self._is_fresh else self.epoch",
        "return self.epoch",
    ),
]
