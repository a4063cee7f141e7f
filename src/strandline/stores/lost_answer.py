"""What a server did not answer."""


class LostError(Exception):
    """No answer came, so it is not known what a request came to."""


class NotSentError(LostError):
    """The server took nothing of it; a later try may succeed."""
