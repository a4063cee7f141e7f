"""Which event loop drives a coroutine."""

from asyncio import _get_running_loop

from strandline.values import InvalidError


def check_on_asyncio() -> None:
    """Raise InvalidError where a coroutine is driven by anything but asyncio, such as trio."""
    # The public way to ask raises where there is none, and each await asks.
    if _get_running_loop() is None:
        raise InvalidError(
            "awaiting this needs a running asyncio event loop; elsewhere make the blocking call"
            " in a thread, with trio for example trio.to_thread.run_sync(next, subscription)"
        )
