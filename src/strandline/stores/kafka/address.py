"""The address of a log on Kafka: brokers, prefix, and credentials."""

import os
import re
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from strandline.io import SystemIo, real_path
from strandline.stores.addresses import check_key, url_options
from strandline.values import InvalidError

PREFIX_DEFAULT: Final = "strandline"
PASSWORD_VARIABLE: Final = "STRANDLINE_KAFKA_PASSWORD"  # noqa: S105 - Its name.
CLIENT_VARIABLE: Final = "STRANDLINE_KAFKA_CLIENT_FILE"
_FORM: Final = "kafka://HOST:PORT/PREFIX"
_URL: Final = re.compile(
    r"kafka:(?://)?(?:(?P<who>[^@/?]*)@)?(?P<brokers>[^@/?]+)(?:/(?P<prefix>[^?/]*))?"
)
_BROKER: Final = re.compile(r"(?:\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?P<port>:[0-9]{1,5})?")
_PREFIX: Final = re.compile(r"[a-z][a-z0-9_]{0,39}")
_PORT: Final = ":9092"
_FILE_BYTES_MAX: Final = 1 << 20
_SYNCS: Final = {"always": True, "broker": False}
_MECHANISM: Final = "SCRAM-SHA-512"
_IN_URL: Final = frozenset(
    {"replicas", "sync", "tls", "tls_ca", "tls_cert", "tls_key", "mechanism", "client_file"}
)
_FILES: Final = {
    "tls_ca": "ssl.ca.location",
    "tls_cert": "ssl.certificate.location",
    "tls_key": "ssl.key.location",
}


class KafkaAddress(NamedTuple):
    """The parts of a URL and of the options given with it."""

    prefix: str
    #: The address without secrets, to show to people.
    shown: str
    #: Settings for all clients of the log.
    client: dict[str, Any]
    replicas: int | None
    #: Whether new topics get flush.messages=1; None if not given.
    is_synced: bool | None

    def __repr__(self) -> str:
        return f"<KafkaAddress {self.shown}>"


def parse_address(url: str, **given: Any) -> KafkaAddress:
    """Parse a URL; InvalidError, without its secrets, if it is not valid."""
    before, _, query = url.partition("?")
    found = _URL.fullmatch(before)
    brokers = [] if found is None else [_broker(each) for each in found["brokers"].split(",")]
    if found is None or None in brokers:
        raise InvalidError(
            f"this is not a URL of Kafka brokers, use {_FORM} and write %40 for @ and %2F for / in"
            " a password"
        )
    prefix = found["prefix"] or PREFIX_DEFAULT
    if _PREFIX.fullmatch(prefix) is None:
        message = "the prefix of a log has 1 to 40 of a-z, 0-9 and _, and begins with a letter"
        raise InvalidError(message, prefix=prefix)
    options = url_options(query, given, _IN_URL, "Kafka broker")
    user, _, password = (found["who"] or "").partition(":")
    if password and not user:
        raise InvalidError("this URL has a password without a user, use kafka://user:password@host")
    servers = ",".join(each for each in brokers if each is not None)
    client = {**_from_file(options.get("client_file") or os.environ.get(CLIENT_VARIABLE))}
    client.update(_access_settings(options, unquote(user), unquote(password), client))
    client["bootstrap.servers"] = servers
    shown = f"kafka://{f'{user}@' if user else ''}{servers}/{prefix}"
    return KafkaAddress(prefix, shown, client, _replicas(options), _is_synced(options))


def _broker(text: str) -> str | None:
    found = _BROKER.fullmatch(text)
    if found is None:
        return None
    return text if found["port"] else text + _PORT


def _access_settings(
    options: dict[str, Any], user: str, password: str, from_file: dict[str, str]
) -> dict[str, Any]:
    """Return the client's settings for TLS, user and password.

    The client's file may have settings, too; the URL takes precedence.
    """
    protocol = from_file.get("security.protocol", "").lower()
    client: dict[str, Any] = {}
    for name, setting in _FILES.items():
        path = options.get(name)
        if path is None:
            continue
        if not SystemIo().exists(path):
            raise InvalidError("this file for TLS does not exist", option=name, path=path)
        client[setting] = path
    in_file = from_file.get("ssl.certificate.location") or from_file.get("ssl.certificate.pem")
    check_key(options.get("tls_cert") or in_file, options.get("tls_key"))
    is_wanted = _flag(options, "tls")
    has_tls = bool(client) or is_wanted is True or protocol.endswith("ssl")
    if has_tls and is_wanted is False:
        message = "tls is false, but files for TLS are named or client_file has it, leave one out"
        raise InvalidError(message, files=sorted(_FILES.keys() & options.keys()))
    has_user = bool(user) or protocol.startswith("sasl")
    mechanism = options.get("mechanism")
    if mechanism is not None and not has_user:
        message = "a mechanism needs a user, name one: kafka://user@host/…, or in client_file"
        raise InvalidError(message, mechanism=mechanism)
    if user:
        client["sasl.username"] = user
        client["sasl.password"] = password or os.environ.get(PASSWORD_VARIABLE, "")
    names_one = "sasl.mechanism" in from_file or "sasl.mechanisms" in from_file
    if mechanism is not None or (user and not names_one):
        client["sasl.mechanism"] = str(mechanism or _MECHANISM)
    if has_tls or has_user:
        client["security.protocol"] = (
            f"{'sasl_' if has_user else ''}{'ssl' if has_tls else 'plaintext'}"
        )
    return client


def _from_file(path: str | None) -> dict[str, str]:
    """Return the client's settings from a file with lines of the form name=value."""
    if path is None:
        return {}
    io = SystemIo()
    try:
        file = io.open(real_path(path), "read")
        try:
            text = io.pread(file, _FILE_BYTES_MAX, 0).decode()
        finally:
            io.close(file)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidError("the client_file cannot be read", client_file=path) from error
    lines = [line.strip() for line in text.splitlines()]
    wanted = [line for line in lines if line and not line.startswith("#")]
    if any("=" not in line for line in wanted):
        raise InvalidError("a line of the client_file is not name=value", client_file=path)
    pairs = (line.partition("=") for line in wanted)
    return {name.strip(): value.strip() for name, _, value in pairs}


def _replicas(options: dict[str, Any]) -> int | None:
    value = options.get("replicas")
    if value is None:
        return None
    if re.fullmatch("[1-9]", str(value)) is None:
        raise InvalidError("replicas are 1 to 9", replicas=value)
    return int(value)


def _is_synced(options: dict[str, Any]) -> bool | None:
    value = options.get("sync")
    if value is None:
        return None
    if value not in _SYNCS:
        raise InvalidError("sync is always or broker", sync=value)
    return _SYNCS[value]


def _flag(options: dict[str, Any], name: str) -> bool | None:
    value = options.get(name)
    if value is None or isinstance(value, bool):
        return value
    if value not in ("true", "false"):
        raise InvalidError(f"{name} is true or false", value=value)
    return bool(value == "true")
