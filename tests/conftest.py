"""Settings that every test shares, and an S3 server for those that need one."""

from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.configuration import set_hypothesis_home_dir
from hypothesis.database import DirectoryBasedExampleDatabase

HYPOTHESIS_HOME = Path(__file__).parent.parent / ".cache" / "hypothesis"

set_hypothesis_home_dir(HYPOTHESIS_HOME)

# Hypothesis would repeat the same examples for ever where CI is set, and its time
# limit per example would turn a busy machine into a failure.
settings.register_profile(
    "strandline",
    database=DirectoryBasedExampleDatabase(HYPOTHESIS_HOME / "examples"),
    deadline=None,
    derandomize=False,
    print_blob=True,
)
settings.load_profile("strandline")


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A bucket of an S3 server, which this process and those that it starts can reach."""
    from moto.server import ThreadedMotoServer  # noqa: PLC0415 # Importing it takes time.

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "tests",
        "AWS_SECRET_ACCESS_KEY": "tests",
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }.items():
        monkeypatch.setenv(name, value)
    made = HTTPConnection(host, port)
    made.request("PUT", "/events", headers={"Host": "s3.amazonaws.com"})
    assert made.getresponse().status == 200
    made.close()
    yield f"s3://events/tier-{port}"
    server.stop()
