"""What clients send, watched frame by frame: no message may be too large, or compressed.

Arrow's server takes messages of any size, and decompresses them unasked. So the bytes of a
connection are followed as HTTP/2 has them, and the connection is cut before such a message
is taken. Only what clients send is examined.
"""

from typing import Final

from strandline.values.arrow_input import is_compressed

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HEAD: Final = 9
_DATA, _RESET = 0, 3
_ENDS, _PADDED = 0x1, 0x8
_PREFIX: Final = 5
_HEADER_FIELD: Final = 2
_HEADER_BYTES_MAX: Final = 4 * 1024 * 1024
_STREAMS_MAX: Final = 1024
_SIZES: Final = {1: 8, 5: 4}
_BYTES_TYPE: Final = 2


class RefusedMessageError(Exception):
    """A client's message is refused, and its connection is closed."""


class ClientFrames:
    """Follows what one client sends."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._pending = bytearray()
        self._preface_left = len(_PREFACE)
        #: Of the present frame: the stream, what is left of it, and its flags.
        self._stream = 0
        self._kind = -1
        self._left = 0
        self._flags = 0
        self._padding = 0
        self._messages: dict[int, MessageBounds] = {}

    def feed(self, data: bytes) -> None:
        """Take the next bytes; RefusedMessageError if they begin a message that is refused."""
        view = memoryview(data)
        if self._preface_left:
            skipped = min(self._preface_left, len(view))
            begun = len(_PREFACE) - self._preface_left
            if bytes(view[:skipped]) != _PREFACE[begun : begun + skipped]:
                raise RefusedMessageError("this is not HTTP/2")
            self._preface_left -= skipped
            view = view[skipped:]
        while view:
            view = self._body(view) if self._left else self._head(view)

    def _head(self, view: memoryview) -> memoryview:
        taken = _HEAD - len(self._pending)
        self._pending += view[:taken]
        if len(self._pending) == _HEAD:
            head = bytes(self._pending)
            self._pending.clear()
            self._left = int.from_bytes(head[:3], "big")
            self._kind, self._flags = head[3], head[4]
            self._stream = int.from_bytes(head[5:9], "big") & 0x7FFFFFFF
            self._padding = -1 if self._kind == _DATA and self._flags & _PADDED else 0
            if self._kind == _RESET or not self._left:
                self._end_frame()
        return view[taken:]

    def _body(self, view: memoryview) -> memoryview:
        piece = view[: self._left]
        self._left -= len(piece)
        if self._kind == _DATA:
            content = piece
            if self._padding < 0:
                self._padding, content = piece[0], piece[1:]
            # The padding is what the frame ends with.
            content = content[: max(0, len(content) + self._left - self._padding)]
            self._message().feed(content)
            self._check_total()
        if not self._left:
            self._end_frame()
        return view[len(piece) :]

    def _message(self) -> "MessageBounds":
        found = self._messages.get(self._stream)
        if found is None:
            if len(self._messages) >= _STREAMS_MAX:
                raise RefusedMessageError("this connection sends too many streams")
            found = self._messages[self._stream] = MessageBounds(self._bytes_max)
        return found

    def _check_total(self) -> None:
        if len(self._messages) > 1:
            total = sum(each.length for each in self._messages.values())
            if total > self._bytes_max:
                raise RefusedMessageError("the messages of this connection are too large together")

    def _end_frame(self) -> None:
        if self._kind == _RESET or (self._kind == _DATA and self._flags & _ENDS):
            self._messages.pop(self._stream, None)


class MessageBounds:
    """Follows the messages of one stream, each of which has its length before it."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._prefix = bytearray()
        self._left = 0
        self._fields = _FieldBounds()
        #: How large the present message is; 0 between two.
        self.length: int = 0

    def feed(self, view: memoryview) -> None:
        """Take the next bytes; RefusedMessageError as in ClientFrames."""
        while view:
            if self._left:
                piece = view[: self._left]
                self._fields.feed(piece)
                self._left -= len(piece)
                view = view[len(piece) :]
            else:
                taken = _PREFIX - len(self._prefix)
                self._prefix += view[:taken]
                view = view[taken:]
                if len(self._prefix) == _PREFIX:
                    self._begin()
            if not self._left:
                self.length = 0

    def _begin(self) -> None:
        is_packed, length = self._prefix[0], int.from_bytes(self._prefix[1:], "big")
        self._prefix.clear()
        if is_packed:
            raise RefusedMessageError("messages are sent uncompressed")
        if length > self._bytes_max:
            raise RefusedMessageError(f"a message has at most {self._bytes_max} bytes")
        self._left = self.length = length
        self._fields = _FieldBounds()


class _FieldBounds:
    """Looks for the metadata of an Arrow message in the fields of one message of gRPC."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._left = 0
        self._kept: bytearray | None = None
        self._is_unknown = False

    def feed(self, view: memoryview) -> None:
        while view and not self._is_unknown:
            if self._left:
                piece = view[: self._left]
                if self._kept is not None:
                    self._kept += piece
                self._left -= len(piece)
                view = view[len(piece) :]
                if not self._left:
                    self._check()
            else:
                self._head.append(view[0])
                view = view[1:]
                self._begin()

    def _begin(self) -> None:
        """Begin a field, once its tag and its length are there."""
        found: list[int] = []
        at = 0
        while len(found) < 2:  # noqa: PLR2004 - The tag, and a number.
            number, at = _varint(self._head, at)
            if number is None:
                # Arrow refuses an invalid message.
                self._is_unknown = len(self._head) > 20  # noqa: PLR2004 - Two of ten bytes.
                return
            found.append(number)
            kind = found[0] & 7
            if kind in _SIZES:
                found.append(_SIZES[kind])
            elif kind not in (0, _BYTES_TYPE):
                self._is_unknown = True
                return
        self._head.clear()
        number, size = found[0] >> 3, found[1]
        self._left = size if found[0] & 7 else 0
        if number == _HEADER_FIELD and found[0] & 7 == _BYTES_TYPE:
            if size > _HEADER_BYTES_MAX:
                raise RefusedMessageError("the metadata of a message is too large")
            self._kept = bytearray()

    def _check(self) -> None:
        if self._kept is not None and is_compressed(bytes(self._kept)):
            raise RefusedMessageError("batches are sent uncompressed")
        self._kept = None


def _varint(packed: bytearray, at: int) -> tuple[int | None, int]:
    found = 0
    for index, byte in enumerate(packed[at : at + 10]):
        found |= (byte & 0x7F) << 7 * index
        if not byte & 0x80:
            return found, at + index + 1
    return None, at
