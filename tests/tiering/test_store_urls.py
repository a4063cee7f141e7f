"""A store's URL: no part is ignored, and two spellings name one store."""

from collections.abc import Callable
from pathlib import Path

import pytest

import strandline as sl
from strandline.tiering import TieringWorker, compact, open_store, sweep, tier
from strandline.values import InvalidError
from tests.tiering.tiered import filled

CALLS: dict[str, Callable[[sl.Log, str], object]] = {
    "tier": lambda log, url: tier(log, "t", url, include_open=True),
    "tier to an opened store": lambda log, url: tier(log, "t", open_store(url), include_open=True),
    "compact": lambda log, url: compact(log, "t", url),
    "sweep": sweep,
    "worker": lambda log, url: TieringWorker(log, ["t"], url),
}


@pytest.mark.parametrize("end", ["?region=eu-west-1", "#a", "?", "/a?b/c"])
@pytest.mark.parametrize("call", CALLS)
def test_a_part_of_a_url_that_no_store_reads_is_refused(
    tmp_path: Path, call: str, end: str
) -> None:
    with sl.open(f"file:{tmp_path / 'log'}") as log:
        filled(log)

        with pytest.raises(InvalidError, match=r"environment.*%3F") as caught:
            CALLS[call](log, f"file://{tmp_path}/cold{end}")

        assert caught.value.fields["url"] == f"file://{tmp_path}/cold{end}"
    assert not list(tmp_path.rglob("*.parquet"))


def test_a_directory_with_such_characters_is_written_with_escapes(tmp_path: Path) -> None:
    with sl.open(f"file:{tmp_path / 'log'}") as log:
        records = filled(log)

        tier(log, "t", (tmp_path / "a?b#c").as_uri(), include_open=True, local_bytes=0)

        assert list((tmp_path / "a?b#c").rglob("*.parquet"))
        assert list(log.read("t", 0, 0)) == records


def test_a_sweep_of_a_store_by_another_spelling_of_its_url_deletes_nothing(tmp_path: Path) -> None:
    with sl.open(f"file:{tmp_path / 'log'}") as log:
        records = filled(log)
        tier(log, "t", f"file://{tmp_path}/cold", include_open=True, local_bytes=0)

        swept = sweep(log, f"file://{tmp_path}/cold/")

        assert swept == 0
        assert list(log.read("t", 0, 0)) == records


def test_a_container_of_azure_is_not_a_credential() -> None:
    url = "abfss://events@account.dfs.core.windows.net/cold"

    assert open_store(url).url == url
    with pytest.raises(InvalidError, match="leave credentials out"):
        open_store("abfss://events:secret@account.dfs.core.windows.net/cold")
    with pytest.raises(InvalidError, match="leave credentials out"):
        open_store("s3://secret@bucket/cold")


@pytest.mark.parametrize("url", ["ftp://x/y", "s3://", "az://c", "foo://bar"])
def test_a_url_of_no_store_is_refused_in_one_line(url: str) -> None:
    with pytest.raises(InvalidError) as caught:
        open_store(url)

    assert "\n" not in str(caught.value.fields["reason"])
    assert "Debug" not in str(caught.value)
    if url != "az://c":
        assert "begins with file:///, memory:///, s3://" in str(caught.value)


def test_a_store_that_does_not_answer_is_reported_in_one_line() -> None:
    store = open_store("http://127.0.0.1:1/nowhere")

    with pytest.raises(sl.StrandlineError) as caught:
        store.get("a")

    assert "\n" not in str(caught.value.fields["reason"])
    assert "Debug" not in str(caught.value)
