"""The address of a log on JetStream: servers, name, and credentials."""

import os
import re
import ssl
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from strandline.stores.addresses import tls_context, url_options
from strandline.values import InvalidError

LOG_DEFAULT: Final = "strandline"
PASSWORD_VARIABLE: Final = "STRANDLINE_NATS_PASSWORD"  # noqa: S105 - Its name.
SYSTEM_VARIABLE: Final = "STRANDLINE_NATS_SYSTEM_URL"
_FORM: Final = "nats://USER@HOST:PORT/LOG"
_URL: Final = re.compile(
    r"nats:(?://)?(?:(?P<user>[^@/?]*)@)?(?P<hosts>[^@/?]+)(?:/(?P<log>[^?/]*))?"
)
_HOST: Final = re.compile(r"(?:\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?")
_LOG_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,39}")
_IN_URL: Final = frozenset({"replicas", "tls_ca", "tls_cert", "tls_key"})


class NatsAddress(NamedTuple):
    """The parts of a URL and of the options given with it."""

    servers: list[str]
    log: str
    #: The address without secrets, to show to people.
    shown: str
    #: The client's options for authentication.
    access: dict[str, Any]
    replicas: int | None

    def __repr__(self) -> str:
        return f"<NatsAddress {self.shown}>"


def parse_address(url: str, **given: Any) -> NatsAddress:
    """Parse a URL; InvalidError, without its secrets, if it is not valid."""
    before, _, query = url.partition("?")
    found = _URL.fullmatch(before)
    hosts = found["hosts"].split(",") if found else []
    if found is None or not all(_HOST.fullmatch(each) for each in hosts):
        raise InvalidError(
            f"this is not a URL of a NATS server, use {_FORM} and write %40 for @ and %2F for / in"
            " a password"
        )
    options = url_options(query, given, _IN_URL, "NATS server")
    log = found["log"] or LOG_DEFAULT
    if _LOG_NAME.fullmatch(log) is None:
        raise InvalidError(
            "a log's name has 1 to 40 of a-z, 0-9 and _, and begins with a letter", log=log
        )
    user, mark, password = (found["user"] or "").partition(":")
    access: dict[str, Any] = {}
    if mark or os.environ.get(PASSWORD_VARIABLE):
        access["user"] = unquote(user)
        access["password"] = unquote(password) or os.environ.get(PASSWORD_VARIABLE, "")
    elif user:
        access["token"] = unquote(user)
    access.update(_tls(options))
    whose = f"{user}@" if mark else ""
    shown = f"nats://{whose}{','.join(hosts)}/{log}"
    return NatsAddress([f"nats://{each}" for each in hosts], log, shown, access, _replicas(options))


def _replicas(options: dict[str, Any]) -> int | None:
    value = options.get("replicas")
    if value is None:
        return None
    if str(value) not in ("1", "3", "5"):
        raise InvalidError("replicas are 1, 3 or 5", replicas=value)
    return int(value)


def _tls(options: dict[str, Any]) -> dict[str, ssl.SSLContext]:
    ca, cert, key = (options.get(name) for name in ("tls_ca", "tls_cert", "tls_key"))
    if ca is None and cert is None and key is None:
        return {}
    return {"tls": tls_context(ca, cert, key)}
