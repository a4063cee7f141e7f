"""URLs of engines: each part of one counts, or is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from strandline.stores.jetstream import address as nats
from strandline.stores.kafka import address as kafka
from strandline.values import InvalidError

KAFKA, NATS = kafka.parse_address, nats.parse_address


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "client"
    path.write_text("security.protocol=SSL\n")
    return path


@pytest.mark.parametrize(
    ("parse", "url", "said"),
    [
        (KAFKA, "kafka://host/shop?replicas=12", "replicas are 1 to 9"),
        (KAFKA, "kafka://host/shop?replicas=", "replicas are 1 to 9"),
        (KAFKA, "kafka://host/shop?replicas=1&replicas=3", "twice"),
        (KAFKA, "kafka://:hush@host/shop", "without a user"),
        (KAFKA, "kafka://host/shop?tls=false&tls_ca={file}", "tls"),
        (KAFKA, "kafka://host/shop?tls=false&client_file={file}", "tls"),
        (KAFKA, "kafka://host/shop?tls_key={file}", "tls_cert"),
        (NATS, "nats://host/shop?replicas=1&replicas=3", "twice"),
        (NATS, "nats://host/shop?tls_key={file}", "tls_cert"),
    ],
)
def test_what_would_be_ignored_is_refused(
    parse: Callable[[str], Any], url: str, said: str, file: Path
) -> None:
    with pytest.raises(InvalidError, match=said) as caught:
        parse(url.format(file=file))

    assert "hush" not in str(caught.value)


def test_a_client_file_may_have_the_certificate_of_a_key(file: Path) -> None:
    file.write_text("ssl.certificate.location=/certificate\n")

    address = KAFKA(f"kafka://host/shop?client_file={file}&tls_key={file}")

    assert address.client["ssl.key.location"] == str(file)
    assert address.client["security.protocol"] == "ssl"


def test_tls_that_is_left_to_the_file_is_on() -> None:
    assert KAFKA("kafka://host/shop?tls=true").client["security.protocol"] == "ssl"
    assert "security.protocol" not in KAFKA("kafka://host/shop?tls=false").client
