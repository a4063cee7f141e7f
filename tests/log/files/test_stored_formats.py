"""A store that an earlier version has written is read and written by this one."""

import json
import tarfile
from pathlib import Path
from typing import Any

import google_crc32c
import pyarrow as pa
import pytest

from strandline.log import Log
from strandline.stores.files.checked import FORMAT
from strandline.stores.files.frame import (
    COLUMNS,
    HAS_TERMS,
    HEADER,
    IS_LZ4,
    IS_MIXED,
    IS_ZSTD,
    ROWS,
)
from strandline.testing import FakeClock
from strandline.values import CorruptError, Event, InvalidError, ProofHead, ValueKind
from tests.log.files.damaged import frames_in
from tests.log.files.make_store import (
    ARCHIVE,
    EXPECTED,
    STORES,
    TENANTS,
    entries_of,
    made_store,
    packed,
)
from tests.log.files.stored_content import content_of
from tests.logs import file_log

VERSIONS = range(1, FORMAT + 1)
AGAIN = "run python -m tests.log.files.make_store, or raise FORMAT if this one is released"


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a copy of the store of one version."""
    folder = tmp_path / "store"
    with tarfile.open(STORES / f"format-{request.param}" / ARCHIVE) as archive:
        # Python knows filters from 3.11.4 on, and the argument no earlier.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder)  # noqa: S202 # An archive of ours.
    return folder


def expected(version: int) -> dict[str, Any]:
    stored = (STORES / f"format-{version}" / EXPECTED).read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(stored)
    assert found["format"] == version
    return found


def opened(store: Path, about: dict[str, Any], mode: str) -> Log:
    return file_log(str(store), mode=mode, clock=FakeClock(now_us=about["now_us"]))


def plain(content: object) -> Any:
    """Return the content as JSON keeps it."""
    return json.loads(json.dumps(content))


def snapshot(store: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(store)): (
            path.stat().st_mtime_ns,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in sorted(store.rglob("*"))
    }


@pytest.mark.parametrize(
    ("store", "version"), [(each, each) for each in VERSIONS], indirect=["store"]
)
def test_reading_finds_everything_and_changes_no_byte(store: Path, version: int) -> None:
    about, before = expected(version), snapshot(store)

    with opened(store, about, "read") as log:
        found = plain(content_of(log, TENANTS))

    assert found == about["content"]
    assert snapshot(store) == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("store", "version"), [(each, each) for each in VERSIONS], indirect=["store"]
)
def test_writing_continues_after_what_is_there(store: Path, version: int) -> None:
    about = expected(version)
    values = {
        ValueKind.EVENT: Event("added", {"n": 1}),
        ValueKind.BYTES: b"added",
        ValueKind.BATCH: pa.record_batch({"n": [1]}),
    }

    with opened(store, about, "write") as log:
        for topic in about["content"]["topics"]:
            name = log.topic(topic["name"], tenant=topic["tenant"])
            for number, partition in enumerate(topic["partitions"]):
                value = values[ValueKind(topic["value_kind"])]
                receipt = log.append(name, value, partition=number)
                assert receipt.offset == partition["high"]
        log.seal("orders")
        log.flush()

    with opened(store, about, "read") as log:
        found = plain(content_of(log, TENANTS))
    assert without_last_record(found) == as_compared(about["content"])


def without_last_record(content: dict[str, Any]) -> dict[str, Any]:
    """Return what a log held before one record was appended to each partition."""
    for topic in content["topics"]:
        for partition in topic["partitions"]:
            partition["high"] -= 1
            offset, *_ = partition["records"].pop()
            assert offset == partition["high"]
    return as_compared(content)


def as_compared(content: dict[str, Any]) -> dict[str, Any]:
    """Return what an append leaves as it is: all but sizes, and epochs that begin later."""
    for topic in content["topics"]:
        del topic["size_bytes"]
        for partition in topic["partitions"]:
            del partition["columns"]
            high = partition["high"]
            epochs = partition["epochs"]
            partition["epochs"] = [each for each in epochs if each[2] < high or each[0] == 0]
    return content


@pytest.mark.parametrize(
    ("store", "version"), [(each, each) for each in VERSIONS], indirect=["store"]
)
def test_a_head_that_was_kept_is_confirmed(store: Path, version: int) -> None:
    about = expected(version)
    head = ProofHead.from_json(about["head"].encode())

    with opened(store, about, "write") as log:
        log.append("proved", Event("added", {"n": 1}))
        (report,) = log.verify("proved", expected=[head])

    assert report.is_sound, report.findings
    assert (report.start, report.end) == (20, head.offset + 1)


@pytest.mark.parametrize(
    ("store", "version"), [(each, each) for each in VERSIONS], indirect=["store"]
)
def test_repeats_are_recognised(store: Path, version: int) -> None:
    about = expected(version)

    with opened(store, about, "write") as log:
        kinds = {topic["name"]: topic["value_kind"] for topic in about["content"]["topics"]}
        for name, partition, terms, offset in about["repeats"]:
            value = b"again" if kinds[name] == "bytes" else Event("again")
            receipt = log.append(name, value, partition=partition, **terms)
            assert (receipt.offset, receipt.is_repeat) == (offset, True), (name, terms)

    assert len(about["repeats"]) >= 18


@pytest.mark.slow
def test_the_store_of_this_version_is_what_is_written_now() -> None:
    made, about = made_store(), expected(FORMAT)
    stored = {}
    with tarfile.open(STORES / f"format-{FORMAT}" / ARCHIVE) as archive:
        for member in archive:
            file = archive.extractfile(member)
            stored[member.name] = None if file is None else file.read()

    now = dict(entries_of(made.tree))

    assert list(now) == list(stored), AGAIN
    if about["pyarrow"] == pa.__version__:
        changed = [name for name in now if used(name, now[name]) != used(name, stored[name])]
        assert not changed, AGAIN
    assert len(packed(made.tree)) < 100 * 1024


def used(name: str, content: bytes | None) -> bytes | None:
    """Return what a file holds but for space reserved, which is no part of the format."""
    return content.rstrip(b"\0") if content and name.endswith(".segment") else content


@pytest.mark.slow
def test_the_store_has_every_kind_of_frame() -> None:
    contents = {name: content for name, content in entries_of(made_store().tree) if content}
    segments = [content for name, content in contents.items() if name.endswith(".segment")]

    kinds = {
        HEADER.unpack_from(content, start)[2:4]
        for content in segments
        for start, _, _, _ in frames_in(content)
    }

    assert kinds >= {(ROWS, 0), (ROWS, HAS_TERMS), (COLUMNS, 0), (COLUMNS, HAS_TERMS | IS_MIXED)}
    assert kinds >= {(COLUMNS, HAS_TERMS | packing) for packing in (0, IS_ZSTD, IS_LZ4)}
    assert kinds >= {(COLUMNS, HAS_TERMS | IS_MIXED | packing) for packing in (IS_ZSTD, IS_LZ4)}
    assert {name.rpartition(".")[2] for name in contents if "." in name} == {
        *("segment", "manifest", "tail", "identities", "identities-copy", "key")
    }


# --- newer versions ---


def renumbered(content: bytes, version: int) -> bytes:
    """Return a checked file as another version would have stored it."""
    first, _, body = content.partition(b"\n")
    head = b" ".join([*first.split(b" ")[:2], b"%d" % version])
    crc = google_crc32c.value(head + body)
    return b"%s %08x\n%s" % (head, crc, body)


def renumbered_header(content: bytes, version: int) -> bytes:
    """Return a segment as another version would have begun it."""
    header = content[:8] + version.to_bytes(2, "little") + content[10:76]
    crc: int = google_crc32c.value(header)
    return header + crc.to_bytes(4, "little") + content[80:]


def look(store: Path, about: dict[str, Any], mode: str) -> None:
    with opened(store, about, mode) as log:
        content_of(log, TENANTS)


@pytest.mark.parametrize("store", [FORMAT], indirect=True)
@pytest.mark.parametrize("pattern", ["strandline", "topic", "*.manifest", "*.key"])
@pytest.mark.parametrize("mode", ["read", "write"])
def test_a_newer_version_is_refused_with_what_to_do(store: Path, pattern: str, mode: str) -> None:
    about, files = expected(FORMAT), sorted(store.rglob(pattern))
    for path in files:
        path.write_bytes(renumbered(path.read_bytes(), FORMAT + 1))

    with pytest.raises(InvalidError, match="newer version of strandline, upgrade") as caught:
        look(store, about, mode)

    assert files
    assert caught.value.fields["format"] == FORMAT + 1
    assert Path(str(caught.value.fields["file"])) in files


@pytest.mark.parametrize("store", [FORMAT], indirect=True)
def test_a_newer_segment_is_refused_and_the_others_are_read(store: Path) -> None:
    about, newer = expected(FORMAT), min(store.rglob("*.segment"))
    newer.write_bytes(renumbered_header(newer.read_bytes(), FORMAT + 1))

    refused = []
    with opened(store, about, "read") as log:
        for topic in log.topics():
            for number in range(len(log.describe_topic(topic).marks)):
                try:
                    list(log.read(topic, number, log.marks(topic, number).low))
                except InvalidError as error:
                    refused.append(error.fields["file"])

    assert refused == [str(newer)]


@pytest.mark.parametrize("store", [FORMAT], indirect=True)
def test_a_number_without_its_checksum_is_damage_and_no_newer_version(store: Path) -> None:
    about, path = expected(FORMAT), store / "strandline"
    path.write_bytes(path.read_bytes().replace(b" %d " % FORMAT, b" %d " % (FORMAT + 1)))

    with pytest.raises(CorruptError):
        opened(store, about, "read")
