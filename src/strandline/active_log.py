"""One active log for each thread."""

import threading
from dataclasses import dataclass

from strandline.opening import open_log
from strandline.subscriptions import SubscribableLog
from strandline.values import InvalidError


@dataclass(frozen=True, slots=True)
class _Active:
    log: SubscribableLog
    is_ours: bool

    def leave(self) -> None:
        # A log that the caller opened is the caller's to close.
        if self.is_ours:
            self.log.close()


class _Thread(threading.local):
    active: _Active | None = None


_thread = _Thread()


def install(log_or_url: SubscribableLog | str | None = None) -> SubscribableLog:
    """Make a log this thread's active one, in place of any other, and return it.

    A URL, or None for the environment's, is opened here, and closed when it is
    replaced or reset. If that fails, the present one stays.
    """
    if log_or_url is None or isinstance(log_or_url, str):
        installed = _Active(open_log(log_or_url), is_ours=True)
    elif callable(getattr(log_or_url, "append", None)) and callable(
        getattr(log_or_url, "subscribe", None)
    ):
        installed = _Active(log_or_url, is_ours=False)
    else:
        raise InvalidError(
            "log_or_url is a log that is open, or the URL of one", type=type(log_or_url).__name__
        )
    previous, _thread.active = _thread.active, installed
    if previous is not None and previous.log is not installed.log:
        previous.leave()
    return installed.log


def active() -> SubscribableLog:
    """Return this thread's active log; the first time, install the environment's.

    Raises what opening it raises.
    """
    installed = _thread.active
    return install() if installed is None else installed.log


def reset() -> None:
    """Leave this thread without an active log."""
    previous, _thread.active = _thread.active, None
    if previous is not None:
        previous.leave()
