"""Names of options, checked where Python would name something that no caller knows."""

import difflib
from collections.abc import Collection, Iterable

from strandline.values.errors import InvalidError

_NEAR_MAX = 3


def check_options(call: str, given: Iterable[str], known: Collection[str]) -> None:
    """Raise InvalidError for the first name that `call` does not take, with similar ones."""
    for name in given:
        if name not in known:
            raise InvalidError(
                f"{call} has no option of this name",
                option=name,
                near=difflib.get_close_matches(name, known, _NEAR_MAX),
                options=sorted(known),
            )
