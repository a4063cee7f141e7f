"""Extracts the values at several paths of a column of JSON, and parses each text once.

Only the values at the paths are created; the parser skips the rest of each text.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cached_property
from operator import attrgetter
from typing import Any, Final

import msgspec
import pyarrow as pa

from strandline.predicates.steps import Path
from strandline.predicates.variant import Number

_SCALARS: Final = int | float | str | bool | None
_MISSING: Final = None
_MANY: Final = 32
_UNREAD: Final = object()
_PART: Final = 2048


Decode = Callable[[bytes | str], Any]


class Shredder:
    """Parses texts for given paths."""

    __slots__ = ("_decode", "_exactly", "_root", "_roughly")

    def __init__(self, paths: Iterable[Path]) -> None:
        root = _Branch()
        for path in paths:
            root.add(path)
        self._root = root
        made = root.type_of()
        self._decode = msgspec.json.Decoder(made).decode
        self._exactly = msgspec.json.Decoder(made, float_hook=Number).decode
        #: Converts numbers beyond DOUBLE to infinity, as Spark does, but is slower.
        self._roughly = msgspec.json.Decoder(made, float_hook=float).decode

    def __call__(self, column: Any) -> "Shredded":
        """Return the values at the paths in each text of a column."""
        storage = column.storage if isinstance(column, pa.ExtensionArray) else column
        return Shredded(storage, self._root, self._decode, self._exactly, self._roughly)

    def one(self, text: "bytes | str | None") -> "ShreddedOne":
        """Return the values at the paths in one text."""
        return ShreddedOne(text, self._root, self._decode, self._exactly, self._roughly)


class Shredded:
    """The values at the paths, for each row."""

    __slots__ = ("__dict__", "_decode", "_exactly", "_root", "_roughly", "_storage")

    def __init__(
        self, storage: pa.Array, root: "_Branch", decode: Decode, exactly: Decode, roughly: Decode
    ) -> None:
        self._storage = storage
        self._root = root
        self._decode = decode
        self._exactly = exactly
        self._roughly = roughly

    def __len__(self) -> int:
        return len(self._storage)

    def values(self, path: Path) -> list[Any]:
        """Return the value at a path for each row, None where there is none."""
        found: list[Any] = self._found[path]
        return found

    def exact(self, path: Path) -> list[Any]:
        """Return the same, with a Number for each number that is no integer."""
        found: list[Any] = self._found_exactly[path]
        return found

    @cached_property
    def _found(self) -> dict[Path, list[Any]]:
        return self._taken(self._decode)

    @cached_property
    def _found_exactly(self) -> dict[Path, list[Any]]:
        return self._taken(self._exactly)

    def _taken(self, decode: Decode) -> dict[Path, list[Any]]:
        # In parts, so that parsed values stay in the processor's cache.
        found = self._part(decode, 0)
        for at in range(_PART, len(self._storage), _PART):
            for path, values in self._part(decode, at).items():
                found[path] += values
        return found

    def _part(self, decode: Decode, at: int) -> dict[Path, list[Any]]:
        texts = self._storage.slice(at, _PART)
        return self._root.all_taken(_parsed((decode, self._roughly), texts))


class ShreddedOne:
    """The values at the paths in one text, which is parsed at the first access."""

    __slots__ = ("_decode", "_exact", "_exactly", "_root", "_roughly", "_row", "_text")

    def __init__(
        self,
        text: "bytes | str | None",
        root: "_Branch",
        decode: Decode,
        exactly: Decode,
        roughly: Decode,
    ) -> None:
        self._text = text
        self._root = root
        self._decode = decode
        self._exactly = exactly
        self._roughly = roughly
        self._row: Any = _UNREAD
        self._exact: Any = _UNREAD

    def value(self, path: Path) -> Any:
        """Return the value at a path, None where there is none."""
        if self._row is _UNREAD:
            self._row = _decoded((self._decode, self._roughly), self._text)
        return self._root.one_taken(self._row, path)

    def exact(self, path: Path) -> Any:
        """Return the same, with a Number for a number that is no integer."""
        if self._exact is _UNREAD:
            self._exact = _decoded((self._exactly, self._exactly), self._text)
        return self._root.one_taken(self._exact, path)


def _parsed(decoders: tuple[Decode, Decode], texts: pa.Array) -> list[Any]:
    """Return each text, parsed; many are faster as bytes, without decoding to text first."""
    listed = (texts if len(texts) < _MANY else texts.cast(pa.binary())).to_pylist()
    try:
        return list(map(decoders[0], listed))
    except (TypeError, ValueError, RecursionError):
        return [_decoded(decoders, text) for text in listed]


def _decoded(decoders: tuple[Decode, Decode], text: bytes | str | None) -> Any:
    """Return one row; None for NULL, and for invalid JSON, as in `try_parse_json`."""
    if text is None:
        return None
    for each in decoders:
        with suppress(ValueError, RecursionError):
            return each(text)
    return None


class _Branch:
    """A common prefix of paths."""

    __slots__ = ("_getters", "_is_leaf", "_items", "_made", "_names")

    def __init__(self) -> None:
        self._getters: dict[Path, Callable[[Any], Any]] | None = None
        self._is_leaf = False
        self._names: dict[str, _Branch] = {}
        self._items: dict[int, _Branch] = {}
        self._made: Any = None

    def add(self, path: Path) -> None:
        if not path:
            self._is_leaf = True
            return
        step, *rest = path
        branch: _Branch
        if isinstance(step, int):
            branch = self._items.setdefault(step, _Branch())
        else:
            branch = self._names.setdefault(step, _Branch())
        branch.add(tuple(rest))

    def type_of(self) -> Any:
        """Return the type that msgspec decodes: only the requested parts of objects and arrays."""
        if self._is_leaf:
            return Any
        found: Any = _SCALARS
        if self._names:
            self._made = msgspec.defstruct(
                "Row",
                [
                    (f"f{number}", branch.type_of(), _MISSING)
                    for number, branch in enumerate(self._names.values())
                ],
                rename={f"f{number}": name for number, name in enumerate(self._names)},
                gc=False,
            )
            found |= self._made
            if self._has_attributes_only():
                self._getters = {
                    path: attrgetter(".".join(steps)) for path, steps in self._attributes()
                }
        else:
            found |= dict[str, msgspec.Raw]
        # The elements of an array have one type, so requested elements are decoded completely.
        return found | (list[Any] if self._items else list[msgspec.Raw])

    def _has_attributes_only(self) -> bool:
        # The value of a leaf, or of an element, is decoded as a dictionary.
        is_mixed = bool(self._items) or (self._is_leaf and bool(self._names))
        inner = map(_Branch._has_attributes_only, self._names.values())
        return not is_mixed and all(inner)

    def _attributes(self) -> Iterator[tuple[Path, tuple[str, ...]]]:
        """Yield each path below with the attributes that lead to it."""
        if self._is_leaf:
            yield (), ()
        for number, (name, branch) in enumerate(self._names.items()):
            for path, steps in branch._attributes():  # noqa: SLF001
                yield (name, *path), (f"f{number}", *steps)

    def all_taken(self, rows: list[Any]) -> dict[Path, list[Any]]:
        """Return the values at each path below, by a fast path if each row has all of them."""
        if self._getters is not None:
            with suppress(AttributeError):
                return {path: list(map(get, rows)) for path, get in self._getters.items()}
        return self.taken(rows)

    def one_taken(self, row: Any, path: Path) -> Any:
        """Return the value at one of the paths below in one row."""
        if self._getters is not None:
            with suppress(AttributeError):
                return self._getters[path](row)
        return self.taken([row])[path][0]

    def taken(self, rows: list[Any]) -> dict[Path, list[Any]]:
        """Return the values at each path below."""
        found: dict[Path, list[Any]] = {(): rows} if self._is_leaf else {}
        for number, (name, branch) in enumerate(self._names.items()):
            # The value of a leaf, or of an element, is decoded as a dictionary.
            made = self._made
            inner = _of_dict(name, rows) if made is None else _of_struct(made, number, rows)
            for path, values in branch.taken(inner).items():
                found[(name, *path)] = values
        for index, branch in self._items.items():
            items = [row[index] if type(row) is list and len(row) > index else None for row in rows]
            for path, values in branch.taken(items).items():
                found[(index, *path)] = values
        return found


def _of_dict(name: str, rows: list[Any]) -> list[Any]:
    return [row.get(name) if type(row) is dict else None for row in rows]


def _of_struct(made: type, number: int, rows: list[Any]) -> list[Any]:
    get = _FIELDS[number] if number < len(_FIELDS) else attrgetter(f"f{number}")
    try:
        return list(map(get, rows))
    except AttributeError:
        return [get(row) if type(row) is made else None for row in rows]


_FIELDS: Final = tuple(attrgetter(f"f{number}") for number in range(16))
