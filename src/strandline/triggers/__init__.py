"""Triggers: functions that are called for records.

Promises: each record that a trigger selects is handled at least once, or dead-lettered with the
cause; the trigger's cursor never moves past an unhandled record that was not dead-lettered;
records of one key are handled one at a time, in order; a handled de-duplication key is not
handled again within its window, also after a restart; each dead letter can be redriven once. See
design 0044.

Does not promise exactly once: a process may be killed after a function has returned and
before the ack is stored.
"""

from strandline.subscriptions.redriving import DeadLetter, attempts, dead_letters, discard, redrive
from strandline.triggers.async_triggers import AsyncTriggers
from strandline.triggers.counters import Counters
from strandline.triggers.schedule import backoff
from strandline.triggers.trigger import Trigger, on
from strandline.triggers.triggers import Triggers

__all__ = [
    "AsyncTriggers",
    "Counters",
    "DeadLetter",
    "Trigger",
    "Triggers",
    "attempts",
    "backoff",
    "dead_letters",
    "discard",
    "on",
    "redrive",
]
