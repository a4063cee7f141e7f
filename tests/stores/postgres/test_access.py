"""Connections to PostgreSQL: TLS, passwords by URL, environment and file, and refusals."""

import contextlib
import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import psycopg
import pytest

import strandline as sl
from strandline.opening import examine
from strandline.stores.postgres import database
from tests.stores.certificates import Authority, why_no_certificates
from tests.stores.engine_server import NoServerError
from tests.stores.postgres.server import PostgresServer, as_ordinary_user

#: Debian's, since the one of the other tests has no TLS.
PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(why_no_certificates() is not None, reason=str(why_no_certificates())),
    pytest.mark.skipif(not PROGRAMS, reason="no server with TLS: apt-get install postgresql"),
]

EVENT = sl.Event("order", {})
SECRET = "pa55-of-app"  # noqa: S105 - Of a server of the test's own.


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def guarded(authority: Authority) -> Iterator[PostgresServer]:
    """A server that takes connections by TLS and with a password."""
    certificate, key = authority.sign("server")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    try:
        server = PostgresServer(programs=PROGRAMS[-1].parent, port=str(port))
    except NoServerError as error:
        pytest.skip(f"PostgreSQL cannot be started: {error}")
    with contextlib.closing(server):
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute("SET password_encryption = 'scram-sha-256'")
            connection.execute(f"CREATE ROLE app LOGIN PASSWORD '{SECRET}'")
            connection.execute("GRANT CREATE ON DATABASE postgres TO app")
            connection.execute("CREATE ROLE guest LOGIN PASSWORD 'guest'")
        for name, path in (("server.crt", certificate), ("server.key", key)):
            copied = server.folder / "data" / name
            shutil.copy(path, copied)
            copied.chmod(0o600)
            if user := as_ordinary_user():
                os.chown(copied, user["user"], user["group"])
        (server.folder / "data/pg_hba.conf").write_text(
            "local all lab trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n"
        )
        server.kill()
        server.reconfigure(ssl="on", listen_addresses="127.0.0.1", port=str(port))
        server.start()
        yield server


def url_of(server: PostgresServer, *, user: str = f"app:{SECRET}", more: str = "") -> str:
    return f"postgresql://{user}@127.0.0.1:{server.port}/postgres?schema=guarded{more}"


def full(authority: Authority) -> str:
    return f"&sslmode=verify-full&sslrootcert={authority.certificate}"


def test_a_log_is_opened_by_tls_and_its_certificate_is_checked(
    guarded: PostgresServer, authority: Authority, tmp_path: Path
) -> None:
    with sl.open(url_of(guarded, more=full(authority))) as log:
        log.create_topic("t")
        log.append("t", EVENT, durability="durable")
        assert SECRET not in repr(log)
        assert SECRET not in repr(log.describe())

    stranger = Authority(tmp_path, "stranger")
    with pytest.raises(sl.InvalidError, match="certificate") as caught:
        sl.open(url_of(guarded, more=full(stranger)))
    assert SECRET not in str(caught.value)


def test_a_password_comes_from_the_environment_or_a_file(
    guarded: PostgresServer,
    authority: Authority,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = url_of(guarded, user="app", more=full(authority))
    monkeypatch.setenv("PGPASSWORD", SECRET)
    with sl.open(url) as log:
        assert SECRET not in repr(log)
    monkeypatch.delenv("PGPASSWORD")

    file = tmp_path / "passwords"
    file.write_text(f"127.0.0.1:{guarded.port}:postgres:app:{SECRET}\n")
    file.chmod(0o600)
    with sl.open(f"{url}&passfile={file}") as log:
        assert SECRET not in repr(log)


@pytest.mark.parametrize(
    ("user", "more"),
    [("app:wrong-one", ""), ("app", ""), ("app:wrong-one", "&sslmode=disable")],
    ids=["wrong_password", "no_password", "no_tls"],
)
def test_who_is_not_admitted_gets_an_error_without_secrets(
    guarded: PostgresServer, user: str, more: str
) -> None:
    url = url_of(guarded, user=user, more=more)

    with pytest.raises(sl.InvalidError) as caught:
        sl.open(url)

    assert "wrong-one" not in str(caught.value)
    assert "wrong-one" not in repr(caught.value.__cause__)
    assert "wrong-one" not in str(list(examine(url)))


def test_a_user_who_may_not_create_a_log_is_refused(guarded: PostgresServer) -> None:
    url = url_of(guarded, user="guest:guest").replace("schema=guarded", "schema=theirs")

    with pytest.raises(sl.InvalidError, match="rights"):
        sl.open(url)
    found = {each.check: each for each in examine(url)}
    assert found["log"].verdict == "failed"
    assert "GRANT CREATE" in found["log"].advice


def test_a_server_that_is_too_old_is_refused(guarded: PostgresServer) -> None:
    with (
        mock.patch.object(database, "VERSION_MIN", 99_00_00),
        pytest.raises(sl.InvalidError, match="too old"),
    ):
        sl.open(url_of(guarded))
