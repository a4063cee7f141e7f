"""Content negotiation: the first format that a request accepts, and the charset of its body."""

import re
from collections.abc import Sequence
from typing import Final

from starlette.requests import Request

from strandline.server.problems import RequestError

_CHARSET: Final = re.compile(r';\s*charset\s*=\s*"?([^\s;"]*)', re.IGNORECASE)
_UTF8: Final = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})


def check_utf8(content_type: str) -> None:
    """Raise 415 for a body of text in another charset than UTF-8."""
    found = _CHARSET.search(content_type)
    if found is not None and found[1].lower() not in _UTF8:
        raise RequestError(415, f"text is sent in UTF-8, not in {found[1]}")


def accepted(request: Request, forms: Sequence[str]) -> str:
    """Return the form that the header Accept prefers; the first one by default."""
    header = request.headers.get("accept", "")
    if not header:
        return forms[0]
    best, best_weight = None, 0.0
    for each in header.split(","):
        media, weight = _weighed(each)
        for form in forms:
            if weight > best_weight and _fits(media, form):
                best, best_weight = form, weight
    if best is None:
        raise RequestError(406, f"this is given as {', '.join(forms)}")
    return best


def _weighed(text: str) -> tuple[str, float]:
    media, *parameters = (part.strip().lower() for part in text.split(";"))
    for each in parameters:
        name, _, value = each.partition("=")
        if name == "q":
            try:
                return media, float(value)
            except ValueError:
                return media, 0.0
    return media, 1.0


def _fits(media: str, form: str) -> bool:
    return media in ("*/*", form, f"{form.partition('/')[0]}/*")
