"""Why a text of JSON cannot be read."""

import re
from typing import Final

#: An escape: a surrogate pair, an unpaired surrogate, or any other.
_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(?P<unpaired>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)


def why_unreadable(error: Exception, text: bytes) -> str:
    """Return why this text could not be decoded: the decoder's reason, if that is clear.

    For a text that ends within a surrogate pair the decoder's reason is missing input.
    """
    reason = str(error)
    if "truncated" in reason or "surrogate" in reason:
        for escape in _ESCAPE.finditer(text):
            if escape["unpaired"] is not None:
                shown = escape[0].decode()
                return f"{shown} is an unpaired surrogate, which no UTF-8 text can have"
    return reason
