"""Converts the path of a stream to the name of a topic, and back.

`/` becomes `..`. Characters that a topic name cannot contain become `.-` and two hex digits
for each byte of UTF-8. All others stay, so that a stream `orders` is the topic `orders`.
"""

import re
from typing import Final

from strandline.values import InvalidError
from strandline.values.names import check_no_control

_PLAIN: Final = re.compile(r"[A-Za-z0-9_-]")
_AFTER_DOT: Final = re.compile(r"[A-Za-z0-9_]")
_START: Final = "0.-00"
"""The prefix of a name whose first character is not allowed as the first of a name."""
_PART: Final = re.compile(r"\.\.|(?:\.-[0-9a-f]{2})+|[^.]+|\.", re.DOTALL)


def topic_name_of(path: str) -> str:
    """Return the name of the topic of a stream; InvalidError if the path is not a stream's.

    The length of the name is checked as for any other topic.
    """
    if not path:
        raise InvalidError("a stream has a path, such as /v1/stream/orders")
    check_no_control(path, "path")
    last = len(path) - 1
    name = "".join(
        _encoded(character, path[index + 1 : index + 2], is_last=index == last)
        for index, character in enumerate(path)
    )
    return _START + name if name[0] in ".-" else name


def path_of(name: str) -> str:
    """Return the path of the stream of a topic."""
    found = bytearray()
    for part in _PART.findall(name.removeprefix(_START)):
        if part == "..":
            found += b"/"
        elif part.startswith(".-"):
            found += bytes.fromhex(part.replace(".-", ""))
        else:
            found += part.encode()
    return found.decode(errors="replace")


def _encoded(character: str, follower: str, *, is_last: bool) -> str:
    if _PLAIN.fullmatch(character):
        return character
    if character == "/" and not is_last:
        return ".."
    if character == "." and _AFTER_DOT.fullmatch(follower):
        return "."
    return "".join(f".-{byte:02x}" for byte in character.encode())
