"""Requests that a server did not answer."""


class LostError(Exception):
    """No answer came, so the outcome of a request is unknown."""


class NotSentError(LostError):
    """The server received nothing of the request; a later try may succeed."""
