"""One active log for each thread."""

import threading
from dataclasses import dataclass

from strandline.log import Log
from strandline.opening import default_url, describe, is_shared, open_log
from strandline.values import InvalidError


@dataclass(frozen=True, slots=True)
class _Active:
    log: Log
    is_ours: bool

    def leave(self) -> None:
        # The caller closes a log that it opened.
        if self.is_ours:
            self.log.close()


class _Thread(threading.local):
    active: _Active | None = None


_thread = _Thread()


def install(log_or_url: Log | str | None = None) -> Log:
    """Make a log this thread's active one, instead of any other, and return it.

    A URL, or None for the environment's, is opened here, and closed when it is
    replaced or reset. If that fails, the current one stays active.
    """
    if log_or_url is None or isinstance(log_or_url, str):
        present = _Active(open_log(log_or_url), is_ours=True)
    elif isinstance(log_or_url, Log):
        present = _Active(log_or_url, is_ours=False)
    else:
        raise InvalidError(
            "log_or_url is a log that is open, or the URL of one", type=type(log_or_url).__name__
        )
    previous, _thread.active = _thread.active, present
    if previous is not None and previous.log is not present.log:
        previous.leave()
    return present.log


def active() -> Log:
    """Return this thread's active log; the first time, install the environment's.

    Creates no log on disk: InvalidError if none is installed and the environment's does not
    exist; `install` creates it. Raises the errors of opening it.
    """
    present = _thread.active
    if present is not None:
        return present.log
    url = default_url()
    if is_shared(url):
        try:
            describe(url)
        except InvalidError as error:
            raise InvalidError(
                "no log is installed and the environment's is not there, install() creates it",
                url=url,
                reason=str(error),
            ) from error
    return install(url)


def installed() -> Log | None:
    """Return this thread's active log if there is one; nothing is opened or created."""
    present = _thread.active
    return None if present is None else present.log


def reset() -> None:
    """Remove this thread's active log."""
    previous, _thread.active = _thread.active, None
    if previous is not None:
        previous.leave()
