"""Connections to NATS by TLS, and the errors of refused ones."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import strandline as sl
from strandline.stores.jetstream.address import PASSWORD_VARIABLE
from tests.stores.certificates import Authority, why_no_certificates
from tests.stores.engine_server import NoServerError
from tests.stores.jetstream.server import NatsServer

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(why_no_certificates() is not None, reason=str(why_no_certificates())),
]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def guarded(authority: Authority) -> Iterator[NatsServer]:
    """A server that takes connections by TLS, of clients with a certificate."""
    certificate, key = authority.sign("server")
    tls = f"""
        tls {{
            cert_file: "{certificate}", key_file: "{key}"
            ca_file: "{authority.certificate}", verify: true
        }}
    """
    try:
        server = NatsServer(more=tls)
    except NoServerError as error:
        pytest.skip(f"NATS cannot be started: {error}")
    with contextlib.closing(server):
        yield server


def test_a_log_is_opened_by_tls_with_a_certificate_and_a_password_of_the_environment(
    guarded: NatsServer, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, key = authority.sign("client")
    files = {"tls_ca": authority.certificate, "tls_cert": certificate, "tls_key": key}
    named = "&".join(f"{name}={path}" for name, path in files.items())
    monkeypatch.setenv(PASSWORD_VARIABLE, "secret")

    with sl.open(f"{guarded.url('tls', user='app')}?{named}") as log:
        log.create_topic("t")
        assert log.append("t", sl.Event("order", {})).offset == 0
        assert "secret" not in repr(log)
        assert "secret" not in repr(log.describe())


@pytest.mark.parametrize("way", ["no_tls", "another_authority"])
def test_a_refused_connection_names_tls(guarded: NatsServer, tmp_path: Path, way: str) -> None:
    options: dict[str, Any] = {
        "no_tls": {},
        "another_authority": {"tls_ca": str(Authority(tmp_path, "stranger").certificate)},
    }[way]

    with pytest.raises(sl.StrandlineError, match="TLS") as caught:
        sl.open(guarded.url("tls"), connect_timeout_s=5.0, **options)

    assert isinstance(caught.value, sl.InvalidError)
    assert "secret" not in str(caught.value)
