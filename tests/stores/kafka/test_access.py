"""Connections to Kafka by SASL and TLS, and the errors of refused ones."""

import logging
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import (
    AclBinding,
    AclOperation,
    AclPermissionType,
)
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

import strandline as sl
from strandline.stores.kafka.address import CLIENT_VARIABLE, PASSWORD_VARIABLE
from tests.stores.certificates import Authority, why_no_certificates
from tests.stores.engine_server import NoServerError
from tests.stores.kafka.server import KafkaServer, free_port

pytestmark = [
    pytest.mark.slow,
    pytest.mark.heavy,
    pytest.mark.skipif(why_no_certificates() is not None, reason=str(why_no_certificates())),
]

SECRET = "hush/ 1@"  # noqa: S105 - Of a broker of the tests' own.
IN_URL = "hush%2F%201%40"
EVENT = sl.Event("order", {"n": 1})


class GuardedKafka:
    """A broker with a door for users: TLS, and SCRAM or PLAIN."""

    def __init__(self, authority: Authority) -> None:
        certificate, key = authority.sign("server")
        store = certificate.with_suffix(".pem")
        store.write_text(key.read_text() + certificate.read_text())
        self.port = free_port()
        self.authority = authority
        login = "org.apache.kafka.common.security"
        self.server = KafkaServer(
            door=self.port,
            more=f"""
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,WIRE:SASL_SSL,CONTROLLER:PLAINTEXT
listener.name.wire.sasl.enabled.mechanisms=SCRAM-SHA-512,PLAIN
listener.name.wire.scram-sha-512.sasl.jaas.config={login}.scram.ScramLoginModule required;
listener.name.wire.plain.sasl.jaas.config={login}.plain.PlainLoginModule required \\
  user_plain="{SECRET}" user_guest="{SECRET}" user_reader="{SECRET}";
listener.name.wire.ssl.keystore.type=PEM
listener.name.wire.ssl.keystore.location={store}
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:app;User:plain
""",
        )
        self._admin = AdminClient({"bootstrap.servers": self.server.address})
        scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        user = UserScramCredentialUpsertion("app", scram, SECRET.encode())
        _wait(self._admin.alter_user_scram_credentials([user]))

    def allow(self, user: str, operation: AclOperation, prefix: str) -> None:
        """Let a user do something with the topics that begin so."""
        kind = ResourceType.TOPIC, prefix, ResourcePatternType.PREFIXED
        rule = AclBinding(*kind, f"User:{user}", "*", operation, AclPermissionType.ALLOW)
        _wait(self._admin.create_acls([rule]))

    def url(self, who: str, prefix: str, **options: str) -> str:
        given = {"tls_ca": str(self.authority.certificate), **options}
        named = "&".join(f"{name}={value}" for name, value in given.items())
        return f"kafka://{who}127.0.0.1:{self.port}/{prefix}?{named}"


def _wait(asked: dict[Any, Any]) -> None:
    for each in asked.values():
        each.result(30)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedKafka]:
    try:
        found = GuardedKafka(Authority(tmp_path_factory.mktemp("ca")))
    except NoServerError as error:
        pytest.skip(f"Kafka cannot be started: {error}")
    with closing(found.server):
        yield found


@pytest.mark.parametrize("way", ["scram", "plain", "environment", "file", "file_of_environment"])
def test_a_user_is_admitted(
    guarded: GuardedKafka,
    way: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        f"# A comment.\nsecurity.protocol = sasl_ssl\nsasl.mechanism=PLAIN\n"
        f"sasl.username=plain\nsasl.password={SECRET}\n"
    )
    if way == "environment":
        monkeypatch.setenv(PASSWORD_VARIABLE, SECRET)
    if way == "file_of_environment":
        monkeypatch.setenv(CLIENT_VARIABLE, str(file))
        file.write_text(file.read_text() + f"ssl.ca.location={guarded.authority.certificate}\n")
    bare = f"kafka://127.0.0.1:{guarded.port}/{way}"
    url = {
        "scram": guarded.url(f"app:{IN_URL}@", way),
        "plain": guarded.url(f"plain:{IN_URL}@", way, mechanism="PLAIN"),
        "environment": guarded.url("app@", way),
        "file": guarded.url("", way, client_file=str(file)),
        "file_of_environment": bare,
    }[way]
    with caplog.at_level(logging.DEBUG), sl.open(url) as log:
        log.create_topic("t")
        assert log.append("t", EVENT, durability="durable").offset == 0
        assert [record.offset for record in log.read("t", 0, 0)] == [0]
        shown = f"{log!r} {log.describe()!r} {log.describe_topic('t')!r}"

    for text in (shown, caplog.text):
        assert SECRET not in text
        assert IN_URL not in text


@pytest.mark.parametrize("who", ["app:wrong@", "stranger:wrong@"])
def test_a_user_who_is_not_admitted_gets_a_clear_error(guarded: GuardedKafka, who: str) -> None:
    with pytest.raises(sl.InvalidError, match="refuses this user") as caught:
        sl.open(guarded.url(who, "refused"), connect_timeout_s=3600)

    assert "wrong" not in str(caught.value)


def test_a_broker_of_another_authority_is_refused(guarded: GuardedKafka, tmp_path: Path) -> None:
    stranger = str(Authority(tmp_path, "stranger").certificate)

    with pytest.raises(sl.InvalidError, match="TLS") as caught:
        sl.open(guarded.url(f"app:{IN_URL}@", "t", tls_ca=stranger), connect_timeout_s=3600)

    assert SECRET not in str(caught.value)


def test_a_client_without_tls_is_not_admitted(guarded: GuardedKafka) -> None:
    url = f"kafka://app:{IN_URL}@127.0.0.1:{guarded.port}/t"

    with pytest.raises(sl.StrandlineError, match=r"TLS|check that they run") as caught:
        sl.open(url, connect_timeout_s=5)

    assert isinstance(caught.value, sl.InvalidError | sl.UnavailableError)
    assert SECRET not in str(caught.value)


def test_rights_that_are_missing_are_named(guarded: GuardedKafka) -> None:
    with sl.open(guarded.url(f"app:{IN_URL}@", "rights")) as log:
        log.create_topic("t")
        log.append("t", EVENT)
    with pytest.raises(sl.InvalidError, match="may not do that"):
        sl.open(guarded.url(f"guest:{IN_URL}@", "rights", mechanism="PLAIN"))

    for operation in (AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS):
        guarded.allow("reader", operation, "rights.")
    url = guarded.url(f"reader:{IN_URL}@", "rights", mechanism="PLAIN")
    with sl.open(url, mode="read") as log:
        assert [record.offset for record in log.read("t", 0, 0)] == [0]
    with sl.open(url) as log, pytest.raises(sl.InvalidError, match="may not do that") as caught:
        log.append("t", EVENT)
    assert SECRET not in str(caught.value)
