"""A REST catalogue of Iceberg tables that fails if it does not answer in time."""

from functools import partial
from typing import Any, Final

from pyiceberg.catalog.rest import RestCatalog

ANSWER_TIMEOUT_S: Final = 60.0
"""How long each request waits for an answer; pyiceberg itself has no limit."""


class TimedRestCatalog(RestCatalog):
    """The catalogue of pyiceberg, with a time limit for each request."""

    def _create_session(self) -> Any:
        session: Any = super()._create_session()
        session.request = partial(session.request, timeout=ANSWER_TIMEOUT_S)
        return session
