"""Why a text of JSON cannot be read."""

import re
from typing import Final

#: An escape: a pair of surrogates, one that has no other half, or any other.
_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(?P<unpaired>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)


def why_unreadable(error: Exception, text: bytes) -> str:
    """Return why this text could not be decoded: what the decoder says, if that is plain.

    For a text that ends with half of a pair it says that input is missing.
    """
    said = str(error)
    if "truncated" in said or "surrogate" in said:
        for escape in _ESCAPE.finditer(text):
            if escape["unpaired"] is not None:
                shown = escape[0].decode()
                return f"{shown} is an unpaired surrogate, which no UTF-8 text can have"
    return said
