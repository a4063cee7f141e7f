"""Damaged input for the core: it crashes at none, and reads none that plain Python does not.

python -m tests.core.fuzz SEEDS [LIBRARY]
"""

import random
import struct
import sys
from collections.abc import Callable
from importlib import import_module
from itertools import accumulate, pairwise
from typing import Any

import msgspec

INPUTS_PER_SEED = 10_000
#: What `Reader.columns` is asked for.
ALL_COLUMNS = 0b111111
_JSON = (
    b'{"id":17,"name":"abc","tags":["a","\\u00e9","\\n"],"price":12.5,"deep":{"a":[[],{}]}}',
    b'[1,-1,0.1,1e5,123456789012345678,1.7976931348623157e308,true,false,null,"\xc3\xa9"]',
    b'"a text that is longer than sixteen bytes \\" \\\\ \\/ and on and on"',
)
_EVENTS = (
    b'[{"kind":"a","key":"k","payload":{"a":[1,2.50,"\\n"],"b":{}},"headers":{"b":"1","a":"2"}}]',
    b'{ "headers" : {"\xc3\xa9":"\\u00e9"} , "kind" : "order.made", "payload" : [0.5, -17, null] }',
)
_REQUEST = b"POST /a HTTP/1.1\r\nContent-Length: 10\r\nX: y\r\n\r\n0123456789"
_HEADERS = b'{"a":"","trace":"00-4bf92f3577b34da6-01","\xc3\xa9\\n":"\\u00e9\\"","z":"zz"}'
_TEXTS = ("plain and long " * 20).encode(), "a €uro, an é and a 😀 each and every time".encode() * 4
_SPLICES = (b'"', b"\\", b"{", b"}", b"[", b"]", b"\xff", b"\x00", b"\\u", b"e", b"-", b"9" * 20)


def mutated(chosen: random.Random, content: bytes) -> bytes:
    """Return the content with a few bytes flipped, cut, repeated or put in."""
    made = bytearray(content)
    for _ in range(chosen.randrange(1, 5)):
        at = chosen.randrange(len(made) + 1)
        match chosen.randrange(6):
            case 0 | 1 if made:
                made[at % len(made)] ^= 1 << chosen.randrange(8)
            case 2 if made:
                made[at % len(made)] = chosen.choice((0, 0x7F, 0x80, 0xC0, 0xDB, 0xFF))
            case 3:
                made[at:at] = chosen.choice(_SPLICES)
            case 4:
                del made[at : at + chosen.randrange(1, 9)]
            case _:
                made[at:at] = made[at : at + chosen.randrange(1, 9)]
    return bytes(made)


class _OneFrame:
    """An io whose only file is one frame."""

    def __init__(self) -> None:
        self.content = b""

    def pread(self, fd: int, length: int, offset: int) -> bytes:  # noqa: ARG002 - There is one.
        return self.content[offset : offset + length]


def run(seed: int) -> None:
    """Give the core so many damaged inputs."""
    chosen = random.Random(seed)
    core = import_module("strandline._core.core")
    frames = _frames(core, chosen)
    for _ in range(INPUTS_PER_SEED // 2):
        text = mutated(chosen, chosen.choice(_JSON))
        _decode(core, text)
        _check_json(core, text)
        _texts(core, mutated(chosen, chosen.choice(_TEXTS)))
        _headers(core, mutated(chosen, _HEADERS))
        _request(core, mutated(chosen, _REQUEST))
        _events(core, mutated(chosen, chosen.choice(_EVENTS)))
        frames(chosen)


def _decode(core: Any, text: bytes) -> None:
    found = core.decode(text)
    if found is NotImplemented:
        return
    try:
        expected = repr(msgspec.json.decode(text))
    except (ValueError, msgspec.MsgspecError) as error:
        raise AssertionError(f"the core has decoded {text!r}") from error
    assert repr(found) == expected, text


def _events(core: Any, text: bytes) -> None:
    from strandline.server.bodies import AppendedEvent, event_of  # noqa: PLC0415 - After the core was chosen.

    found = core.events_of_json(text, 10)
    if found is NotImplemented:
        return
    is_list = text.lstrip().startswith(b"[")
    try:
        decoded: Any = msgspec.json.decode(
            text, type=list[AppendedEvent] if is_list else AppendedEvent
        )
        events: list[Any] = [event_of(each) for each in (decoded if is_list else [decoded])]
    except (ValueError, msgspec.MsgspecError) as error:
        raise AssertionError(f"the core has made events of {text!r}") from error
    assert [each.stored_row() for each in found] == [each.stored_row() for each in events], text


def _request(core: Any, whole: bytes) -> None:
    head, _, body = whole.partition(b"\r\n\r\n")
    before, name, after = head.rpartition(b"ength: ")
    length, end, rest = after.partition(b"\r")
    is_said = name and length == b"%d" % len(body) and b"\r\n\r\n" in whole
    assert core.split_request(whole) == ((before + name + end + rest, body) if is_said else None)


def _column(*texts: bytes) -> tuple[bytes, int, int, bytes]:
    """Return the texts as the core takes a column of them, with one before it."""
    ends = [0, *accumulate(map(len, texts), initial=3)]
    offsets = b"".join(each.to_bytes(8, "little") for each in ends)
    return offsets, 1, len(texts), b"---" + b"".join(texts)


def is_utf8(content: bytes) -> bool:
    """Whether Python decodes it."""
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def _check_json(core: Any, text: bytes) -> None:
    if is_utf8(text) and core.are_json(*_column(b"{}", text)):
        try:
            msgspec.json.decode(text)
        except (ValueError, msgspec.MsgspecError) as error:
            raise AssertionError(f"the core takes {text!r} for JSON") from error


def _texts(core: Any, text: bytes) -> None:
    offsets, *rest = _column(text)
    assert core.are_texts(offsets, 8, *rest) == is_utf8(text), text


def _headers(core: Any, text: bytes) -> None:
    found = core.header_columns(*_column(b'{"k":"v"}', text))
    if found is NotImplemented or not is_utf8(text):
        return
    try:
        expected = msgspec.json.decode(text, type=dict[str, str])
    except (ValueError, msgspec.MsgspecError) as error:
        raise AssertionError(f"the core has decoded {text!r}") from error
    starts, names_at, names_text, values_at, values_text = found
    count = 1 + len(expected)
    assert struct.unpack("<3I", starts) == (0, 1, count), text
    names, values = _parts(names_at, names_text, count), _parts(values_at, values_text, count)
    assert list(zip(names, values, strict=True)) == [("k", "v"), *expected.items()], text


def _parts(starts: bytes, content: bytes, count: int) -> list[str]:
    ends = struct.unpack(f"<{count + 1}I", starts)
    return [content[a:b].decode() for a, b in pairwise(ends)]


def _frames(core: Any, seeded: random.Random) -> Callable[[random.Random], None]:
    from strandline.stores.files.frame import encode_frame  # noqa: PLC0415 - After the core was chosen.

    bodies = bodies_of_frames(core, seeded)
    check = frame_check(core)

    def one(chosen: random.Random) -> None:
        kind, count, body = chosen.choice(bodies)
        about = (kind, chosen.choice((0, 0, 0, 1, 8)), 5, count, 17, 0)
        content, _ = encode_frame(9, 3, about, mutated(chosen, body))
        if chosen.randrange(4) == 0:
            content = mutated(chosen, content)
        check(content, count, chosen.choice((1 << 62, chosen.randrange(500))))

    return one


def frame_check(core: Any) -> Callable[[bytes, int, int], None]:
    """Return a check that plain Python reads what the core reads of a frame of so many records."""
    from strandline.stores.files.entries import page_of  # noqa: PLC0415 - After the core was chosen.
    from strandline.stores.files.frame import decode_frame  # noqa: PLC0415
    from strandline.values import CorruptError, InvalidError, Partition, ValueKind  # noqa: PLC0415

    io = _OneFrame()

    def check(content: bytes, count: int, limit: int) -> None:
        io.content = content
        end = len(content)
        given = (None, io, 0, 9, 0, 5, end, 5 + count, end, "t", Partition(0))
        frame = decode_frame(9, content, 0, 0)
        columns = core.Reader(*given, 0, True)
        parts = columns.columns(ALL_COLUMNS, 1, 1, bytearray)
        if columns.base > 5:
            assert frame is not None, content
            assert columns.base == 5 + count
            _same_columns(frame, parts)
        run = core.Reader(*given, limit, True)
        found = list(run)
        if not found:
            return
        assert frame is not None, content
        try:
            expected = list(page_of(frame, ValueKind.EVENT, "").records("t", Partition(0)))
        except (CorruptError, InvalidError) as error:
            raise AssertionError(f"the core has read {content!r}") from error
        assert run.is_full == (len(found) < len(expected))
        events = [each.event.parts() for each in expected]
        assert [each.event.parts() for each in found] == events[: len(found)]

    return check


def _same_columns(frame: Any, parts: list[tuple[bytearray | None, ...]]) -> None:
    """Check that plain Python reads the same columns of a frame."""
    import pyarrow as pa  # noqa: PLC0415 - After the core was chosen.

    from strandline.stores.files.entries import columns_of  # noqa: PLC0415
    from strandline.values import ValueKind  # noqa: PLC0415

    stored, tenant = columns_of(frame, ValueKind.EVENT, "")
    stamps = pa.array([frame.timestamp_us] * frame.records, pa.timestamp("us", "UTC"))
    assert tenant is None
    for expected, buffers in zip([*stored.columns, stamps], parts, strict=True):
        arrow = [None if each is None else pa.py_buffer(each) for each in buffers]
        assert pa.Array.from_buffers(expected.type, frame.records, arrow).equals(expected)


def bodies_of_frames(core: Any, chosen: random.Random) -> list[tuple[int, int, bytes]]:
    """Return the kind, the count of records and the body of frames, in rows and in columns."""
    from strandline.stores.files import columnar  # noqa: PLC0415, F401 - It shows the core how.
    from strandline.values import Event  # noqa: PLC0415

    bodies = []
    for count in (1, 2, 17, 64):
        events = [
            Event("k" * chosen.randrange(1, 40), n, key=chosen.choice((None, "é", "k" * 40)))
            for n in range(count)
        ]
        rows = b"".join(each.stored_row() for each in events)  # type: ignore[attr-defined]
        bodies.append((2, count, core.encode_columns(events)))
        head = bytes((0x90 + count,)) if count < 16 else b"\xdc" + count.to_bytes(2, "big")
        bodies.append((1, count, head + rows))
    return bodies


if __name__ == "__main__":
    if len(sys.argv) > 2:
        from tests.core.lane_check import use

        use(sys.argv[2])
    for number in range(int(sys.argv[1])):
        run(number)
