"""Object stores that wrap a working one and fail, truncate or return wrong data on purpose."""

from collections.abc import Callable, Sequence

from strandline.values import UnavailableError


class MemoryObjects:
    """Implements ObjectStore in a dict."""

    def __init__(self, url: str = "memory:///tests") -> None:
        self.url = url
        self.objects: dict[str, bytes] = {}

    def put(self, name: str, content: bytes) -> str | None:
        self.objects[name] = content
        return None

    def put_new(self, name: str, content: bytes) -> bool:
        return self.objects.setdefault(name, content) is content

    def get(self, name: str) -> bytes | None:
        return self.objects.get(name)

    def get_end(self, name: str, start: int) -> bytes | None:
        found = self.objects.get(name)
        return None if found is None else found[start:]

    def delete(self, name: str) -> None:
        self.objects.pop(name, None)

    def list(self, prefix: str) -> Sequence[str]:
        return sorted(name for name in self.objects if name.startswith(prefix))


class CrashError(Exception):
    """Stands for the death of the process."""


class FaultyObjects(MemoryObjects):
    """Raises at the n-th call, before or after it is carried out."""

    def __init__(self, url: str = "memory:///tests") -> None:
        super().__init__(url)
        self.calls: list[str] = []
        self.fail_at: int | None = None
        self.is_after = False
        self.error: Callable[[], Exception] = lambda: UnavailableError("the store is away")
        self.torn: int | None = None
        """How many bytes of a put arrive."""
        self.stale: list[str] | None = None
        """What `list` returns instead of the real names."""

    def put(self, name: str, content: bytes) -> str | None:
        self._before("put")
        super().put(name, content if self.torn is None else content[: self.torn])
        self._after()
        return "tag"

    def put_new(self, name: str, content: bytes) -> bool:
        self._before("put_new")
        is_new = super().put_new(name, content)
        self._after()
        return is_new

    def get(self, name: str) -> bytes | None:
        self._before("get")
        found = super().get(name)
        self._after()
        return found

    def get_end(self, name: str, start: int) -> bytes | None:
        self._before("get_end")
        found = super().get_end(name, start)
        self._after()
        return found

    def delete(self, name: str) -> None:
        self._before("delete")
        super().delete(name)
        self._after()

    def list(self, prefix: str) -> Sequence[str]:
        self._before("list")
        found = super().list(prefix) if self.stale is None else self.stale
        self._after()
        return found

    def _before(self, name: str) -> None:
        self.calls.append(name)
        if self.fail_at == len(self.calls) and not self.is_after:
            raise self.error()

    def _after(self) -> None:
        if self.fail_at == len(self.calls) and self.is_after:
            raise self.error()
