"""Options that are in the query of a URL, or given beside it."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from strandline.values import InvalidError


def url_options(
    query: str, given: Mapping[str, Any], known: frozenset[str], server: str
) -> dict[str, Any]:
    """Return the options of both; InvalidError for one that is in both, or that is not known."""
    named: dict[str, Any] = dict(parse_qsl(query, keep_blank_values=True))
    if strange := sorted(named.keys() - known):
        raise InvalidError(
            f"a URL of a {server} has no such options", options=strange, known=sorted(known)
        )
    for name, value in given.items():
        if value is not None:
            if name in named:
                raise InvalidError("this is in the URL, too, give it once", option=name)
            named[name] = value
    return named
