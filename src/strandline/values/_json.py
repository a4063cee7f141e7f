"""Encodes JSON, and refuses values that a reader would not get back unchanged."""

import math

import msgspec

from strandline.values.errors import InvalidError

JSON_DEPTH_MAX = 128
"""How deeply arrays and objects may nest.

Far below the limit of decoders, also with a deep call stack, so that every process can
read what another process could write.
"""

decode = msgspec.json.Decoder().decode
encode_sorted = msgspec.json.Encoder(order="sorted").encode
"""Returns the same JSON text for equal values, regardless of the order of their keys."""

_encode = msgspec.json.Encoder().encode

# Without floats, because NaN and infinities are not JSON.
_PLAIN = frozenset((str, int, bool, type(None)))

# Values with fewer bytes than this cannot nest too deeply.
_DEEP_BYTES_MIN = 2 * JSON_DEPTH_MAX
_TO_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NOT_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")


def encode_exact(value: object) -> bytes:
    """Return the JSON of `value`, from which a reader decodes an equal value.

    Raises InvalidError with the path to the value if the two would differ: for NaN and
    infinities, keys that are not text, and types that are not JSON. A tuple may
    stand for a list, a member of an IntEnum or StrEnum for its value, and a subclass
    of dict or list for one; `tests/values/test_payload_conversions.py` has the list.
    """
    try:
        encoded = _encode(value)
        if is_plain(value):
            return encoded
        decoded = decode(encoded)
    except RecursionError:
        raise InvalidError(
            "this value nests too deeply or contains itself", depth_max=JSON_DEPTH_MAX
        ) from None
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError) as error:
        raise InvalidError("this cannot be stored as JSON, change it", reason=str(error)) from error
    if len(encoded) > _DEEP_BYTES_MIN:
        _check_depth(encoded)
    # Comparing runs in C; the slow search runs only if values differ.
    if decoded != value:
        _check_exact(value, "$")
    return encoded


def is_plain(value: object, depth: int = 1) -> bool:
    """Whether it contains only JSON types, not nested too deeply.

    This check takes less time than decoding.
    """
    kind = type(value)
    if kind is dict and depth <= JSON_DEPTH_MAX:
        for key, item in value.items():  # type: ignore[attr-defined]
            kind = type(item)
            if type(key) is not str or (
                kind not in _PLAIN
                # The difference of a finite number and itself is 0.
                and (kind is not float or item - item)
                and not is_plain(item, depth + 1)
            ):
                return False
        return True
    if kind is list and depth <= JSON_DEPTH_MAX:
        for item in value:  # type: ignore[attr-defined]
            kind = type(item)
            if (
                kind not in _PLAIN
                and (kind is not float or item - item)
                and not is_plain(item, depth + 1)
            ):
                return False
        return True
    if kind is float:
        # Other floats would be encoded as null.
        return math.isfinite(value)  # type: ignore[arg-type]
    return kind in _PLAIN


def _check_depth(encoded: bytes) -> None:
    if encoded.count(b"[") + encoded.count(b"{") <= JSON_DEPTH_MAX:
        return
    without_escapes = encoded.replace(b"\\\\", b"").replace(b'\\"', b"")
    outside_strings = b"".join(without_escapes.split(b'"')[::2])
    brackets = outside_strings.translate(_TO_BRACKETS, _NOT_BRACKETS)
    for _ in range(JSON_DEPTH_MAX):
        # Each round removes exactly the innermost level of every branch.
        brackets = brackets.replace(b"[]", b"")
        if not brackets:
            return
    raise InvalidError("this value nests too deeply", depth_max=JSON_DEPTH_MAX)


def _check_exact(value: object, path: str) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise InvalidError("a key in JSON is text, pass a str", path=path, key=key)
            _check_exact(item, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _check_exact(item, f"{path}[{index}]")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidError("JSON has no NaN and no infinity", path=path, value=value)
    elif value is not None and not isinstance(value, str | int):
        raise InvalidError(
            "this type is not JSON, convert it first", path=path, type=type(value).__name__
        )
