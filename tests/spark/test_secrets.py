"""What is secret comes to a job by its environment, and is in no option, plan or checkpoint."""

import traceback

import pytest

import strandline as sl
from strandline.spark.log_urls import spark_url
from strandline.spark.sink.settings import batch_settings
from tests.spark.as_spark import source

SECRETS = [
    "postgresql://me:s3cret@db/shop",
    "postgresql://me@db/shop?password=s3cret",
    "postgresql://me@db/shop?connect_timeout=3&sslpassword=s3cret",
    "nats://me:s3cret@bus:4222/shop",
    "nats://s3cret@bus:4222/shop",
]


@pytest.mark.parametrize("url", SECRETS)
def test_a_url_with_a_secret_is_refused_and_not_repeated(url: str) -> None:
    for refused in (
        lambda: source(url, subscribe="t").schema(),
        lambda: batch_settings({"path": url, "topic": "t", "stagingLocation": "memory:///x"}),
        lambda: spark_url(url),
    ):
        with pytest.raises(sl.InvalidError, match="environment") as caught:
            refused()
        assert "s3cret" not in "".join(traceback.format_exception_only(caught.value))
        assert "s3cret" not in repr(caught.value.fields)


@pytest.mark.parametrize(
    "url",
    [
        *("postgresql://me@db/shop?host=/run/x", "postgresql://db/shop?passfile=/etc/p"),
        *("nats://bus:4222/shop", "https://logs.example:443"),
    ],
)
def test_a_url_without_one_is_taken_as_it_is(url: str) -> None:
    assert spark_url(url) == url


def test_a_user_whose_password_is_in_the_environment_is_no_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STRANDLINE_NATS_PASSWORD", "s3cret")

    assert spark_url("nats://me@bus/shop") == "nats://me@bus/shop"
