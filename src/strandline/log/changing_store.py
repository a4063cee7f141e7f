"""What a store may do besides: change a key with no other change in between."""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from strandline.log.store import Store, StoredTopic, T_contra

AnswerT = TypeVar("AnswerT")


class ChangingStore(Protocol[T_contra]):
    """What a store has besides whose lock can be held meanwhile."""

    def change_key(
        self,
        topic: T_contra,
        key: str,
        change: Callable[[bytes | None], tuple[bytes, AnswerT]],
    ) -> AnswerT:
        """Replace a value by what `change` makes of it, once; return its answer, durable then.

        What `change` raises leaves the value as it is. Others wait for it: it reads only what
        takes no time.
        """


def change_key(
    store: Store[StoredTopic],
    topic: StoredTopic,
    key: str,
    change: Callable[[bytes | None], tuple[bytes, AnswerT]],
) -> AnswerT:
    """Replace a value by what `change` makes of it, if need be again and again.

    Members of a group move the cursors of one key. Where each had to find the value as it was
    when it began, those that wait for a lock would find it changed, and begin again.
    """
    changing: Any = getattr(store, "change_key", None)
    if changing is not None:
        answer: AnswerT = changing(topic, key, change)
        return answer
    while True:
        raw = store.get_key(topic, key)
        value, answer = change(raw)
        if store.put_key(topic, key, value, raw):
            return answer
