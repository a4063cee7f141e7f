"""Checks a token's rights on a server, its log's durability, and what to do about them."""

from collections.abc import Iterator
from typing import Final

from strandline.clock import SystemClock
from strandline.log import wire
from strandline.log.examined import Examined
from strandline.stores.remote.connection import RemoteConnection
from strandline.values import Durability, StrandlineError

_WAIT_S: Final = 10.0


def examine(url: str, token: str | None, tls_ca: str | None = None) -> Iterator[Examined]:
    """Yield findings about the server of a URL. Changes nothing there."""
    try:
        connection = RemoteConnection(
            url,
            token=token,
            clock=SystemClock(),
            patience_s=_WAIT_S,
            timeout_s=_WAIT_S,
            tls_ca=tls_ca,
        )
    except StrandlineError as error:
        yield Examined("server", "failed", "no such address", str(error))
        return
    try:
        found = connection.call("open", wire.DoneReturn(), wire.WireStore)
    except StrandlineError as error:
        yield Examined("server", "failed", "not usable", str(error))
    else:
        yield Examined("server", "ok", connection.url)
        yield _rights(found)
        yield _durability(found)
    finally:
        connection.close()


def _rights(found: wire.WireStore) -> Examined:
    shown = ", ".join(found.scopes)
    if found.tenant is not None:
        shown += f" on topics of tenant {found.tenant}"
    if "append" in found.scopes:
        return Examined("rights", "ok", shown)
    return Examined("rights", "warning", shown, 'open the log with mode="consume" or "read"')


def _durability(found: wire.WireStore) -> Examined:
    level = Durability(found.durability_max)
    verdict = "ok" if level is Durability.DURABLE else "warning"
    advice = "" if verdict == "ok" else "a power loss on the server can lose what it acknowledged"
    return Examined("durability", verdict, f"{level} at most: {found.durability_reason}", advice)
