"""Options of `strandline serve` in a TOML file."""

from pathlib import Path
from typing import Any

import pytest

from strandline.server.settings import ServerSettings
from strandline.values import InvalidError
from tests.cli.program import run
from tests.server.processes import ServerProcess


@pytest.mark.parametrize(("variable", "status"), [(None, 413), ("4KiB", 201)])
def test_a_file_holds_where_neither_option_nor_variable_is_given(
    variable: str | None, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "serve.toml"
    settings.write_text('port = 1\nbody-max = "1KiB"\nread_only = false\n')
    if variable is not None:
        monkeypatch.setenv("STRANDLINE_BODY_MAX", variable)

    with (
        ServerProcess(str(tmp_path / "log"), 0, "--config", str(settings)) as server,
        server.client() as client,
    ):
        client.put("/v1/topics/orders", json={})
        large = {"kind": "placed", "payload": {"text": "x" * 2000}}
        answer = client.post("/v1/topics/orders/records", json=large)

    assert server.port != 1
    assert answer.status_code == status


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("prot = 1", "unknown options prot"),
        ("port = ", "is not TOML"),
        ('port = "many"', "--port"),
        (None, "cannot be read"),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_what_is_wrong(
    text: str | None, says: str, tmp_path: Path
) -> None:
    settings = tmp_path / "serve.toml"
    if text is not None:
        settings.write_text(text)

    done = run("serve", "--config", str(settings))

    assert done.code == 2
    assert says in " ".join(done.stderr.split())


def test_a_body_that_may_have_no_byte_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRANDLINE_URL", f"file:{tmp_path}/log")

    done = run("serve", "--port", "0", "--body-max", "0")

    assert done.code != 0
    assert "body_bytes_max" in done.stderr


@pytest.mark.parametrize(
    "limits", [{"streams_max": 0}, {"page_bytes_max": -1}, {"ping_s": 0}, {"drain_s": -1.0}]
)
def test_limits_that_leave_nothing_are_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(InvalidError, match=next(iter(limits))):
        ServerSettings(**limits)
