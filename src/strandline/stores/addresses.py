"""Common parts of server addresses: options in the query, and files for TLS."""

import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from strandline.values import InvalidError


def url_options(
    query: str, given: Mapping[str, Any], known: frozenset[str], server: str
) -> dict[str, Any]:
    """Return the options of both; InvalidError for one given twice, or unknown."""
    pairs = parse_qsl(query, keep_blank_values=True)
    named: dict[str, Any] = dict(pairs)
    if len(named) < len(pairs):
        raise InvalidError(
            f"an option is in the URL of a {server} twice, give it once",
            options=[name for name, _ in pairs],
        )
    if strange := sorted(named.keys() - known):
        raise InvalidError(
            f"a URL of a {server} has no such options", options=strange, known=sorted(known)
        )
    for name, value in given.items():
        if value is not None:
            if name in named:
                raise InvalidError("this option is in the URL already, give it once", option=name)
            named[name] = value
    return named


def check_key(certificate: str | None, private_key: str | None) -> None:
    """Raise InvalidError for a private key without its certificate, which no client uses."""
    if private_key is not None and certificate is None:
        raise InvalidError("a key for TLS belongs to a certificate, pass tls_cert, too")


def tls_context(
    ca: str | None = None, certificate: str | None = None, private_key: str | None = None
) -> ssl.SSLContext:
    """Return the TLS settings for a server whose certificate `ca` has signed.

    Without `ca`, the system's authorities are trusted. `certificate` is the client's own.
    InvalidError for files that cannot be used.
    """
    check_key(certificate, private_key)
    try:
        context = ssl.create_default_context(cafile=ca)
        if certificate is not None:
            context.load_cert_chain(certificate, private_key)
    except (OSError, ssl.SSLError) as error:
        raise InvalidError(
            "the files for TLS cannot be read, check tls_ca, tls_cert and tls_key",
            tls_ca=ca,
            tls_cert=certificate,
            reason=str(error),
        ) from error
    return context
