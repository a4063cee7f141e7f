"""Entity tags: which copy of an answer a client has. See RFC 9110, 13.1.2."""

import re
from typing import Final

from starlette.requests import Request

_TAG: Final = re.compile(r'(?:W/)?("[\x21\x23-\x7e\x80-\xff]*")')


def is_known(request: Request, tag: str) -> bool:
    """Whether If-None-Match names this tag: alone, in a list, as a weak one, or by `*`."""
    given = ", ".join(request.headers.getlist("if-none-match"))
    return given == tag or given.strip() == "*" or tag in _TAG.findall(given)
