"""How a record of a batch is stored: a line with the format and a checksum, then JSON."""

from typing import Final

import google_crc32c
import msgspec

from strandline.spark.sink.place import Body
from strandline.values import CorruptError, InvalidError

#: The newest format; what older versions can read is stored in the first one.
FORMAT: Final = 2
_FIRST: Final = 1

_HEAD: Final = b"strandline sink %d "


def encoded(body: msgspec.Struct) -> bytes:
    """Return what to store."""
    content = msgspec.json.encode(body)
    return _first_line(getattr(body, "format", _FIRST), content) + content


def decoded(stored: bytes, shape: type[Body], file: str) -> Body:
    """Return what was stored; CorruptError, which names the file, if it is damaged."""
    first, _, content = stored.partition(b"\n")
    number = first.rpartition(b" ")[0].rpartition(b" ")[2]
    if number.isdigit() and first + b"\n" == _first_line(int(number), content):
        if int(number) > FORMAT:
            raise InvalidError(
                "a newer version of strandline has recorded this batch, upgrade to continue",
                file=file,
            )
        try:
            return msgspec.json.decode(content, type=shape)
        except msgspec.MsgspecError:
            pass
    raise CorruptError("this record of a batch is damaged", file=file, position=0)


def _first_line(version: int, content: bytes) -> bytes:
    head = _HEAD % version
    return b"%s%08x\n" % (head, google_crc32c.extend(google_crc32c.value(head), content))
