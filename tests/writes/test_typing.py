"""The types of a user's own delta, by mypy. Strict mypy refuses an ignore that it does not need."""

from collections.abc import Callable

from strandline.writes import Coordinator, Settings
from tests.writes.doubles import Put


class Letters:
    """A delta of str."""

    def __init__(self, context: int) -> None:
        self._context = context

    def apply(self, write: str) -> int:
        return len(write)

    def size(self) -> int:
        return 0

    def freeze(self) -> tuple[bytes, int]:
        return b"", self._context

    def reader(self) -> str:
        return ""


class Bytes:
    """A flusher of bytes."""

    def flush(self, frozen: bytes, epochs: range) -> None:
        pass

    def sync(self) -> None:
        pass


class Words(Bytes):
    """A flusher of str."""

    def flush(self, frozen: str, epochs: range) -> None:  # type: ignore[override]
        pass


def test_types_of_delta_flusher_and_write_fit_together() -> None:
    coordinator = Coordinator(
        Settings(), ["a"], context=0, snapshot=None, delta=Letters, flusher=Bytes()
    )
    with coordinator:
        length: int = coordinator.channel("a").write("four").wait()
        current: str = coordinator.view().current

    assert (length, current) == (4, "")


def misfits() -> list[Callable[[], object]]:
    """Return what must not type-check; nothing here is called."""
    good = Coordinator(Settings(), ["a"], context=0, snapshot=None, delta=Letters, flusher=Bytes())
    return [
        lambda: good.channel("a").write(Put("a", 1)),  # type: ignore[arg-type]
        lambda: Coordinator(
            Settings(),
            ["a"],
            context="text",
            snapshot=None,
            delta=Letters,  # type: ignore[arg-type]
            flusher=Bytes(),
        ),
        lambda: Coordinator(
            Settings(),
            ["a"],
            context=0,
            snapshot=None,
            delta=Letters,  # type: ignore[arg-type]
            flusher=Words(),
        ),
    ]
