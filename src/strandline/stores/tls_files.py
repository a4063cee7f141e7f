"""The files with which a client of a server speaks TLS."""

import ssl

from strandline.values import InvalidError


def tls_context(
    ca: str | None = None, certificate: str | None = None, private_key: str | None = None
) -> ssl.SSLContext:
    """Return how to speak TLS with a server whose certificate `ca` has signed.

    Without `ca` the authorities of the system are trusted. `certificate` is the client's own.
    InvalidError for files that cannot be used.
    """
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
