"""An optional ability of a store: change one key atomically."""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from strandline.log.store import Store, StoredTopic, T_contra

AnswerT = TypeVar("AnswerT")


class ChangingStore(Protocol[T_contra]):
    """What a store offers besides if it can hold its lock while a value is changed."""

    def change_key(
        self,
        topic: T_contra,
        key: str,
        change: Callable[[bytes | None], tuple[bytes, AnswerT]],
    ) -> AnswerT:
        """Replace the value with the result of `change`; return its answer once durable.

        If `change` raises, the value is unchanged. Other callers wait for the lock
        meanwhile, so `change` must be quick.
        """


def change_key(
    store: Store[StoredTopic],
    topic: StoredTopic,
    key: str,
    change: Callable[[bytes | None], tuple[bytes, AnswerT]],
) -> AnswerT:
    """Replace the value with the result of `change`, retrying on conflicts if need be.

    Members of a group move the cursors in one key. With compare-and-swap, callers that wait
    for a lock would find the value changed each time, and would have to start again.
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
