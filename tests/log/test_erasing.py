"""Erasing the records of a key: what is left of them, whatever interrupts it."""

import errno
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

import strandline as sl
from strandline.io import SystemIo
from strandline.log import Log
from strandline.stores.files import FileStore, erasing
from strandline.stores.files.erasing import ErasedFiles
from strandline.stores.memory import MemoryStore
from strandline.testing import FaultyIo
from strandline.values import InvalidError, ProofHead
from tests.log.erasing_child import SECRET, fill

URLS = ["memory:", "file:{}/log", "sqlite:{}/log.db"]
COUNT = 105
#: With these, pages of SQLite had unused parts with old rows in them.
MOVED_SEEDS = (30, 32, 34)


@pytest.fixture(params=URLS)
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    with sl.open(request.param.format(tmp_path), retention=False) as opened:
        yield opened


def left(path: Path) -> list[str]:
    """Return the files in which what was erased can still be found."""
    found = [each for each in path.rglob("*") if each.is_file()]
    return [str(each) for each in found if SECRET.encode() in each.read_bytes()]


@pytest.mark.parametrize("proof", [False, True])
def test_what_a_key_held_is_gone_and_each_offset_stays(
    log: Log, tmp_path: Path, proof: bool
) -> None:
    log.create_topic("orders", proof=proof)
    fill(log)
    before = list(log.read("orders", 0, 0))

    report = log.erase("orders", key="bob")

    after = list(log.read("orders", 0, 0))
    assert [(each.offset, each.timestamp_us) for each in after] == [
        (each.offset, each.timestamp_us) for each in before
    ]
    erased = [each.offset for each in before if each.key == "bob"]
    assert [each.offset for each in after if sl.is_erased(each)] == erased
    assert report.erased == len(erased) == 22
    assert {(each.key, each.kind, each.payload) for each in after if sl.is_erased(each)} == {
        (None, "strandline.erased", None)
    }
    assert [each for each in after if not sl.is_erased(each)] == [
        each for each in before if each.key != "bob"
    ]
    assert report.is_released
    assert left(tmp_path) == []


def test_a_dry_run_counts_and_changes_nothing(log: Log) -> None:
    log.create_topic("orders")
    fill(log)
    before = list(log.read("orders", 0, 0))

    report = log.erase("orders", key="bob", dry_run=True)

    assert (report.erased, report.is_dry_run) == (22, True)
    assert list(log.read("orders", 0, 0)) == before


def test_an_erasure_that_is_repeated_finds_nothing(log: Log) -> None:
    log.create_topic("orders")
    fill(log)
    log.erase("orders", key="bob")
    before = list(log.read("orders", 0, 0))

    assert log.erase("orders", key="bob").erased == 0
    assert list(log.read("orders", 0, 0)) == before


def test_a_proof_holds_with_heads_from_before_and_says_what_was_erased(log: Log) -> None:
    log.create_topic("orders", proof=True)
    log.append("orders", sl.Event("order", {"text": SECRET}), key="bob")
    middle = log.proof_head("orders", 0)
    fill(log)
    end = log.proof_head("orders", 0)

    log.erase("orders", key="bob")

    (report,) = log.verify("orders", expected=[middle, end])
    assert (report.findings, report.erased, report.records) == ((), 23, COUNT + 1)
    assert log.proof_head("orders", 0) == end
    log.append("orders", sl.Event("order", {"id": 1}), key="bob")
    (report,) = log.verify("orders", expected=[middle, end])
    assert (report.findings, report.erased) == ((), 23)


def test_an_erased_record_shows_the_digest_that_is_in_the_proof(log: Log) -> None:
    log.create_topic("orders", proof=True)
    log.append("orders", sl.Event("order", {"text": SECRET}), key="bob")
    history = log.history("orders", 0)
    (entry,) = next(iter(history.pieces)).entries  # type: ignore[union-attr]
    digest = history.chain.digest_kept(entry).hex()

    log.erase("orders", key="bob")

    (record,) = log.read("orders", 0, 0)
    assert record.headers == {"strandline-erased": digest}


def test_a_record_with_content_is_no_tombstone(log: Log) -> None:
    """Else an appender could store what counts as erased, and is in no proof."""
    log.create_topic("orders", proof=True)
    kind, header = "strandline.erased", {"strandline-erased": "ab" * 32}
    forged = [
        sl.Event(kind, {"a": 1}, headers=header),
        sl.Event(kind, None, key="k", headers=header),
        sl.Event(kind, None),
        sl.Event(kind, None, headers={"other": "a"}),
    ]
    log.append_many("orders", forged)

    assert not any(sl.is_erased(each) for each in log.read("orders", 0, 0))
    before = log.proof_head("orders", 0)
    log.erase("orders", key="k")
    after = log.verify("orders", expected=[before])

    assert [sl.is_erased(each) for each in log.read("orders", 0, 0)] == [False, True, False, False]
    assert after[0].is_sound


@pytest.mark.parametrize(
    "event",
    [
        sl.Event("strandline.erased", {"a": 1}, headers={"strandline-erased": "ab" * 32}),
        sl.Event("strandline.erased", None, key="k", headers={"strandline-erased": "ab" * 32}),
        sl.Event("strandline.erased", None, headers={"strandline-erased": "ab" * 32, "a": "b"}),
        sl.Event("strandline.erased", None, headers={"strandline-erased": "ab" * 16}),
    ],
    ids=["payload", "key", "header", "digest"],
)
def test_the_proof_has_the_content_of_what_only_looks_erased(log: Log, event: sl.Event) -> None:
    log.create_topic("orders", proof=True)
    log.append("orders", event)
    history = log.history("orders", 0)
    (entry,) = [each for piece in history.pieces for each in getattr(piece, "entries", ())]
    place = entry.offset, entry.timestamp_us, entry.key, entry.tenant

    digest = history.chain.digest(*place, entry.body)

    assert digest.hex() not in {"ab" * 32, "ab" * 16}
    assert log.verify("orders")[0].is_sound


def test_bytes_are_erased(log: Log) -> None:
    log.create_topic("frames", value_kind="bytes", proof=True)
    log.append_many("frames", [b"one", SECRET.encode(), b"three"], keys=["a", "bob", "a"])
    head = log.proof_head("frames", 0)

    log.erase("frames", key="bob")

    records = list(log.read("frames", 0, 0))
    assert [sl.is_erased(each) for each in records] == [False, True, False]
    value = records[1].value
    assert isinstance(value, bytes)
    assert SECRET.encode() not in value
    assert not log.verify("frames", expected=[head])[0].findings


def test_dead_letters_of_the_topic_are_erased_with_it(log: Log) -> None:
    log.create_topic("orders")
    log.append("orders", sl.Event("order", {"text": SECRET}), key="bob")
    with log.consumer("orders", "mailer") as consumer:
        consumer.dead_letter(next(consumer), reason="no address")

    report = log.erase("orders", key="bob")

    assert [(each.topic, each.partitions) for each in report.topics] == [
        ("orders", (1,)),
        ("__strandline.dead_letters.orders", (1,)),
    ]


def test_consumers_and_subscriptions_continue_over_what_was_erased(log: Log) -> None:
    log.create_topic("orders")
    fill(log)
    with log.consumer("orders", "mailer") as consumer:
        consumer.ack(next(consumer))
        log.erase("orders", key="bob")

        offsets = [next(consumer).record.offset for _ in range(COUNT - 1)]

    assert offsets == list(range(1, COUNT))


def test_what_was_trimmed_and_is_still_in_a_segment_is_erased_too(tmp_path: Path) -> None:
    with sl.open(f"file:{tmp_path / 'log'}") as log:
        log.create_topic("orders")
        fill(log)
        log.trim("orders", 0, 100, force=True)
        size = log.describe_topic("orders").size_bytes

        log.erase("orders", key="bob")

        assert left(tmp_path) == []
        assert [each.offset for each in log.read("orders", 0, 100)] == list(range(100, COUNT))
        kept = [each for each in log.read("orders", 0, 100) if sl.is_erased(each)]
        assert (len(kept), size > 0) == (1, True)
        assert log.apply_retention("orders")[0].remaining == COUNT - 100


def test_sealed_and_compressed_segments_are_erased(tmp_path: Path) -> None:
    with Log(FileStore(str(tmp_path / "log"), compression="zstd")) as log:
        log.create_topic("orders", proof=True)
        fill(log)
        head = log.proof_head("orders", 0)
        log.seal("orders")
        fill(log)

        assert log.erase("orders", key="bob").erased == 44

        assert not log.verify("orders", expected=[head])[0].findings
        assert sum(map(sl.is_erased, log.read("orders", 0, 0))) == 44
        assert sum(each.num_rows for each in log.read_batches("orders", 0, 0)) == 2 * COUNT


@pytest.mark.parametrize(
    ("options", "message"),
    [({"key": "\ud800"}, "key"), ({"key": 1}, "key"), ({"key": "a", "dry_run": 1}, "dry_run")],
)
def test_a_call_that_makes_no_sense_is_refused(
    log: Log, options: dict[str, Any], message: str
) -> None:
    log.create_topic("orders")

    with pytest.raises(InvalidError, match=message):
        log.erase("orders", **options)


def test_batches_and_internal_topics_are_refused(log: Log) -> None:
    log.create_topic("prices", value_kind="batch")

    with pytest.raises(InvalidError, match="trim the topic"):
        log.erase("prices", key="a")
    log.create_topic("__strandline.dead_letters.prices", internal=True)
    with pytest.raises(InvalidError, match="give the topic itself"):
        log.erase("__strandline.dead_letters.prices", key="a")


def erased_until(path: Path, nth: int) -> bool:
    """Erase, and crash at the nth operation on files; say whether it came to that."""
    io = FaultyIo(SystemIo())
    log = Log(FileStore(str(path), io=io), retention=False)
    changes = ["open", "pwrite", "truncate", "sync", "sync_directory", "replace", "unlink"]
    io.fail(nth, errno.EIO, kinds=changes, forever=True)  # type: ignore[arg-type]
    try:
        log.erase("orders", key="bob")
    except sl.StrandlineError:
        return True
    finally:
        io.clear_faults()
        log.close()
    return False


@pytest.mark.slow
def test_interrupted_at_any_operation_it_is_completed_by_the_next_call(tmp_path: Path) -> None:
    place, nth = tmp_path / "log", 1
    with Log(FileStore(str(place))) as log:
        log.create_topic("orders", proof=True)
        fill(log)
        head = ProofHead.from_json(log.proof_head("orders", 0).to_json())
    steps = 0
    while True:
        copy = tmp_path / f"copy{nth}"
        sl.backup(str(copy), url=f"file:{place}")
        was_interrupted = erased_until(copy, nth)
        with Log(FileStore(str(copy)), retention=False) as log:
            assert not log.verify("orders", expected=[head])[0].findings
            log.erase("orders", key="bob")
            assert sum(map(sl.is_erased, log.read("orders", 0, 0))) == 22
            assert not log.verify("orders", expected=[head])[0].findings
            assert len(list(log.read("orders", 0, 0))) == COUNT
        assert left(copy) == [], nth
        if not was_interrupted:
            break
        steps, nth = steps + 1, nth + 3
    assert steps > 5


@pytest.mark.slow
@pytest.mark.parametrize("url", URLS[1:])
@pytest.mark.parametrize("step", ["before", "between"])
def test_killed_and_run_again_it_completes(tmp_path: Path, url: str, step: str) -> None:
    place = url.format(tmp_path)
    with sl.open(place) as log:
        log.create_topic("orders", proof=True)
        fill(log)
    child = [sys.executable, "-m", "tests.log.erasing_child", place, step]

    killed = subprocess.run(child, check=False, timeout=120, capture_output=True)

    assert killed.returncode == -9, killed.stderr
    with sl.open(place) as log:
        log.erase("orders", key="bob")
        assert sum(map(sl.is_erased, log.read("orders", 0, 0))) == 22
        assert not log.verify("orders")[0].findings
    assert left(tmp_path) == []


class PlainStore(MemoryStore):
    """A store that erases nothing."""

    capabilities = replace(MemoryStore.capabilities, has_erasure=False)


def test_a_store_that_cannot_erase_reports_it() -> None:
    with Log(PlainStore()) as log:
        log.create_topic("orders")

        with pytest.raises(InvalidError, match="cannot be erased in this store"):
            log.erase("orders", key="bob")


class HoldingStore(MemoryStore):
    """A store that still holds what it has erased of its first partition."""

    def erase(self, topic: Any, partition: int, key: str, *, dry_run: bool) -> Any:
        done = super().erase(topic, partition, key, dry_run=dry_run)
        return done._replace(is_released=partition != 0)


def test_what_one_partition_still_holds_is_not_released() -> None:
    with Log(HoldingStore()) as log:
        log.create_topic("orders", partitions=2)

        assert not log.erase("orders", key="bob").is_released


@pytest.mark.parametrize("mode", ["read", "consume"])
def test_a_log_that_was_opened_for_less_erases_nothing(tmp_path: Path, mode: Any) -> None:
    url = f"file:{tmp_path / 'log'}"
    with sl.open(url) as log:
        log.create_topic("orders")
        fill(log)
    with sl.open(url, mode=mode) as log, pytest.raises(InvalidError, match="mode"):
        log.erase("orders", key="bob", dry_run=True)


@pytest.mark.parametrize("is_noted", [True, False])
def test_a_file_that_was_replaced_is_found_again_by_what_was_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_noted: bool
) -> None:
    """Planted: without the note, what a crash leaves behind is never removed."""

    def stop(*_: object) -> None:
        raise InterruptedError

    with sl.open(f"file:{tmp_path / 'log'}") as log:
        log.create_topic("orders")
        fill(log)
        with monkeypatch.context() as patch:
            patch.setattr(erasing, "_remove", stop)
            if not is_noted:
                patch.setattr(ErasedFiles, "note", lambda *_: None)
            with pytest.raises(sl.UnavailableError):
                log.erase("orders", key="bob")

        log.erase("orders", key="bob")

        assert bool(left(tmp_path)) is not is_noted


@pytest.mark.parametrize("seed", MOVED_SEEDS)
def test_rows_that_were_moved_between_pages_leave_nothing_behind(tmp_path: Path, seed: int) -> None:
    chance = Random(seed)
    with sl.open(f"sqlite:{tmp_path}/log.db", retention=False) as log:
        log.create_topic("orders", partitions=3)
        for _ in range(60):
            keys = chance.choices(["bob", "ann", "eve", "dan"], k=chance.randrange(1, 12))
            log.append_many("orders", [_of(key, chance.randrange(1, 30)) for key in keys])
            if chance.random() < 0.1:
                log.trim("orders", 0, chance.randrange(log.marks("orders", 0).high + 1))

        report = log.erase("orders", key="bob")

    assert report.is_released
    assert left(tmp_path) == []


def _of(key: str, repeats: int) -> sl.Event:
    return sl.Event("order", {"text": (SECRET if key == "bob" else "x") * repeats}, key=key)
