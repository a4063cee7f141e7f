"""The page of the format says what the files hold."""

import json
import re
from base64 import b64decode
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID

import google_crc32c
import msgspec
import pyarrow as pa
import pytest

from strandline.stores.files.checked import FORMAT
from strandline.stores.files.columnar import frame_schema
from strandline.stores.files.frame import (
    COLUMNS,
    FRAME_BYTES_MAX,
    HAS_TERMS,
    HEADER,
    HEADER_BYTES,
    IS_LZ4,
    IS_MIXED,
    IS_ZSTD,
    LAG_UNKNOWN,
    MAGIC,
    ROWS,
)
from strandline.stores.files.segment import FRAMES_AT
from strandline.stores.files.tail import (
    DROPPED,
    DURABLE_AT,
    FENCE_AT,
    TAIL_BYTES,
    UNSEALED,
    WANTED,
    WANTED_AT,
    Durable,
    End,
    Fence,
    pack_durable,
    pack_end,
    pack_fence,
    tail_seed,
)
from strandline.values import Event, ValueKind
from tests.log.files import format_page
from tests.log.files.damaged import frames_in
from tests.log.files.format_page import layout, magic, numbers, table, tables
from tests.log.files.make_store import TENANTS, entries_of, made_store
from tests.log.files.stored_content import content_of
from tests.logs import file_log

Files = dict[str, bytes]


@pytest.fixture(scope="module")
def files() -> Files:
    """Return a store with something of everything."""
    return {path: content for path, content in entries_of(made_store().tree) if content is not None}


def ending(files: Files, suffix: str) -> Iterator[tuple[str, bytes]]:
    found = [(path, content) for path, content in files.items() if path.endswith(suffix)]
    assert found
    return iter(found)


def body_of(content: bytes) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(content.partition(b"\n")[2])
    return body


def log_id(files: Files) -> UUID:
    return UUID(body_of(files["strandline"])["id"])


# --- checked files ---


def test_the_page_names_the_version() -> None:
    assert f"`FORMAT` is one number for everything in a log. It is {FORMAT}." in format_page.text()


def test_every_file_has_its_place_on_the_page(files: Files) -> None:
    shapes = {
        "<log>": "",
        "<topic id>": r"[0-9a-f-]{36}",
        "<40 hex digits>": r"[0-9a-f]{40}",
        "<partition>": r"\d+",
        "<epoch>": r"\d{10}",
        "<number>": r"\d{10}",
    }
    _, _, tree = format_page.text().partition("## The directory\n\n```\n")
    places, folders = [], [""]
    for line in tree.partition("```")[0].splitlines()[1:]:
        depth = (len(line) - len(line.lstrip())) // 2
        name = re.split(r"  +", line.strip())[0]
        del folders[depth:]
        folders.append(name)
        if not name.endswith("/"):
            path = re.escape("".join(folders)).replace(r"\ ", " ")
            for shown, shape in shapes.items():
                path = path.replace(re.escape(shown).replace(r"\ ", " "), shape)
            places.append(path)

    strange = [path for path in files if not any(re.fullmatch(each, path) for each in places)]
    empty = [each for each in places if not any(re.fullmatch(each, path) for path in files)]

    assert (strange, empty) == ([], [])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "suffix"),
    [
        ("log", "strandline"),
        ("topic", "/topic"),
        ("manifest", ".manifest"),
        ("key", ".key"),
        ("identities", ".identities"),
    ],
)
def test_checked_files_have_the_fields_of_the_page(files: Files, kind: str, suffix: str) -> None:
    for path, content in ending(files, suffix):
        first, _, body = content.partition(b"\n")
        head = b"strandline %s %d" % (kind.encode(), FORMAT)
        assert first == b"%s %08x" % (head, google_crc32c.value(head + body)), path
        assert list(body_of(content)) == fields_of(f"### {kind}"), path


@pytest.mark.parametrize(
    ("heading", "suffix", "field"),
    [
        ("### manifest: an epoch", ".manifest", "epochs"),
        ("### manifest: a segment", ".manifest", "segments"),
    ],
)
def test_their_parts_have_the_fields_of_the_page(
    files: Files, heading: str, suffix: str, field: str
) -> None:
    for path, content in ending(files, suffix):
        for part in body_of(content)[field]:
            assert list(part) == fields_of(heading), path


def test_consumers_have_the_fields_of_the_page(files: Files) -> None:
    for path, content in ending(files, ".key"):
        consumer = json.loads(b64decode(body_of(content)["value"]))
        assert list(consumer) == fields_of("### key: a consumer"), path
        for cursor in consumer["cursors"]:
            fields = table("### key: a cursor")
            needed = [name for name, _, meaning in fields if "default" not in meaning]
            assert list(cursor)[: len(needed)] == needed, path
            # What has its default is left out.
            assert list(cursor) == [name for name, _, _ in fields if name in cursor], path
            assert all(cursor[name] for name in cursor.keys() - {*needed}), path


def fields_of(heading: str) -> list[str]:
    return [name for name, _, _ in table(heading)]


@pytest.mark.slow
def test_defaults_of_the_page_may_be_left_out(files: Files, tmp_path: Path) -> None:
    whole, bare = tmp_path / "whole", tmp_path / "bare"
    for path, content in files.items():
        kind = next((each for each in ("topic", "manifest") if path.endswith(each)), None)
        put(whole / path, content)
        put(bare / path, content if kind is None else without_defaults(kind, content))
    left_out = sum(len(files[path]) - len((bare / path).read_bytes()) for path in files)

    with file_log(str(whole), mode="read") as log:
        expected = content_of(log, TENANTS)
    with file_log(str(bare), mode="read") as log:
        found = content_of(log, TENANTS)

    assert found == expected
    assert left_out > 1000


def put(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    if path.name == "topic":
        for number in range(body_of(content)["partitions"]):
            (path.parent / str(number) / "segments").mkdir(parents=True, exist_ok=True)
        (path.parent / "keys").mkdir(exist_ok=True)


def without_defaults(kind: str, content: bytes) -> bytes:
    """Return a checked file without the fields that hold their defaults."""
    body = bare_of(f"### {kind}", body_of(content))
    if kind == "manifest":
        heading = "### manifest: a segment"
        body["segments"] = [bare_of(heading, each) for each in body["segments"]]
    encoded = json.dumps(body, separators=(",", ":")).encode()
    head = b"strandline %s %d" % (kind.encode(), FORMAT)
    return b"%s %08x\n%s" % (head, google_crc32c.value(head + encoded), encoded)


def bare_of(heading: str, body: dict[str, Any]) -> dict[str, Any]:
    defaults = {
        name: json.loads(default[1])
        for name, _, meaning in table(heading)
        if (default := re.search(r"default (\w+)", meaning))
    }
    assert defaults
    return {
        name: value
        for name, value in body.items()
        if name not in defaults or value != defaults[name]
    }


def test_the_first_epochs_id_and_a_consumers_file_follow_from_the_page(files: Files) -> None:
    for path, content in ending(files, ".manifest"):
        manifest = body_of(content)
        topic, partition = UUID(manifest["topic_id"]), manifest["partition"]
        origin = b"strandline epoch 0" + topic.bytes + partition.to_bytes(4, "little")
        first = UUID(bytes=sha256(origin).digest()[:16], version=5)
        assert manifest["epochs"][0]["id"] == str(first), path
    for path, content in ending(files, ".key"):
        stored = body_of(content)
        consumer = json.loads(b64decode(stored["value"]))
        assert stored["key"] == f"cursors/{consumer['tenant'] or ''}/{consumer['name']}"
        assert sha256(stored["key"].encode()).hexdigest()[:40] in path


# --- segments ---


def test_segments_begin_as_the_page_says(files: Files) -> None:
    header = layout("### The segment's header")
    assert header.struct.size == FRAMES_AT == numbers(header.meanings[2])[0]

    for path, content in ending(files, ".segment"):
        epoch, number = (int(part) for part in path[-29:-8].split("-"))
        manifest = manifest_of(files, path)
        [stored] = [
            each
            for each in manifest["segments"]
            if (each["epoch"], each["number"]) == (epoch, number)
        ]
        [epoch_id] = [each["id"] for each in manifest["epochs"] if each["number"] == epoch]
        assert header.unpack(content) == (
            magic(header.meanings[0]),
            FORMAT,
            FRAMES_AT,
            manifest["partition"],
            log_id(files).bytes,
            UUID(manifest["topic_id"]).bytes,
            epoch,
            UUID(epoch_id).bytes,
            stored["base"],
            google_crc32c.value(content[:76]),
        )


def manifest_of(files: Files, segment: str) -> dict[str, Any]:
    folder = segment.partition("segments/")[0]
    return body_of(next(content for _, content in ending_in(files, folder, ".manifest")))


def ending_in(files: Files, folder: str, suffix: str) -> Iterator[tuple[str, bytes]]:
    return (each for each in ending(files, suffix) if each[0].startswith(folder))


def test_frames_are_chained_and_checked_as_the_page_says(files: Files) -> None:
    header = layout("### The frame's header")
    assert (header.struct.format, header.struct.size) == (HEADER.format, HEADER_BYTES)
    assert magic(header.meanings[1]) == MAGIC
    assert numbers(header.meanings[5]) == [FRAME_BYTES_MAX]
    assert numbers(header.meanings[9]) == [LAG_UNKNOWN]

    for path, content in ending(files, ".segment"):
        seed, previous = google_crc32c.value(content[:68]), 0
        for start, end, _, _ in frames_in(content):
            checksum, _, _, _, before, *_ = header.struct.unpack_from(content, start)
            assert before == previous, path
            assert checksum == google_crc32c.extend(seed, content[start + 4 : end]), path
            previous = checksum


def test_kinds_and_flags_are_those_of_the_page() -> None:
    kinds = {name: int(number) for number, name, _ in table("### Kinds of frames")}
    flags = {name: int(number) for number, name, _ in table("### Flags")}

    assert kinds == {"rows": ROWS, "columns": COLUMNS}
    assert flags == {"has terms": HAS_TERMS, "zstd": IS_ZSTD, "lz4": IS_LZ4, "mixed": IS_MIXED}


def test_few_values_are_rows_and_more_are_columns(tmp_path: Path) -> None:
    with file_log(str(tmp_path / "log")) as log:
        log.create_topic("orders")
        for count in (63, 64):
            log.append_many("orders", [Event("x")] * count)

    [segment] = (tmp_path / "log").rglob("*.segment")
    content = segment.read_bytes()
    assert "fewer than 64 values" in format_page.text()
    assert [content[start + 6] for start, _, _, _ in frames_in(content)] == [ROWS, COLUMNS]


TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "string or nil": (str, type(None)),
    "integer": int,
    "integer or nil": (int, type(None)),
    "binary": bytes,
    "binary or nil": (bytes, type(None)),
    "array or nil": (list, type(None)),
}


def test_rows_and_terms_have_the_shapes_of_the_page(files: Files) -> None:
    events, values = tables("### Rows")
    terms, appends = table("### Terms"), table("### Terms: an append")
    kinds, slots = set(), []
    for path, content in ending(files, ".segment"):
        value_kind = body_of(files[topic_file(path)])["value_kind"]
        for start, end, _, count in frames_in(content):
            kind, flags, body = content[start + 6], content[start + 7], content[start + 40 : end]
            if flags & HAS_TERMS:
                length = int.from_bytes(body[:2], "little")
                slots.append(msgspec.msgpack.decode(body[2 : 2 + length]))
                body = body[2 + length :]
            if kind == ROWS:
                rows = msgspec.msgpack.decode(body)
                assert len(rows) == count
                for row in rows:
                    check_shape(row, events if value_kind == "event" else values)
                kinds.add(value_kind)

    for each in slots:
        check_shape(each, terms)
        for append in each[6] if len(each) > 6 else ():
            check_shape(append, appends)
    assert any(len(each) > 6 for each in slots)
    assert kinds == {"event", "bytes", "batch"}
    assert {each[0] for each in slots} == {None, "shop"}
    assert {each[1] for each in slots} == {None, "till", "gaps"}
    assert {each[2] for each in slots if each[1] == "till"} >= {0, 10, 20}
    assert {each[3] for each in slots} >= {None, "0-0", "1-0", "2-1"}
    assert any(each[4] is not None and each[4][0] == each[2] for each in slots)


def topic_file(path: str) -> str:
    return "/".join([*path.split("/")[:2], "topic"])


def check_shape(found: list[object], shape: list[list[str]]) -> None:
    # Those of several appends have one more than those of one, and rows may end early.
    assert len(found) in (len(shape), len(shape) - 1)
    for value, (index, kind, _) in zip(found, shape, strict=False):
        assert found[int(index)] is value
        assert isinstance(value, TYPES[kind])


def test_columns_are_those_of_the_page(files: Files) -> None:
    rows = table("### Columns")
    by_kind = {ValueKind.EVENT: "events", ValueKind.BYTES: "bytes"}

    for kind, where in by_kind.items():
        for flags, wanted in ((0, {"always", where}), (IS_MIXED, {"always", "mixed", where})):
            shown = [(name, type_) for name, type_, place in rows if place in wanted]
            schema = frame_schema(kind, flags)
            assert [(field.name, str(field.type)) for field in schema] == shown


def test_compressed_columns_begin_with_their_length(files: Files) -> None:
    codecs = {IS_ZSTD: "zstd", IS_LZ4: "lz4_raw"}
    seen = set()
    for _, content in ending(files, ".segment"):
        for start, end, _, _ in frames_in(content):
            flags, body = content[start + 7], content[start + 40 : end]
            if flags & HAS_TERMS:
                body = body[2 + int.from_bytes(body[:2], "little") :]
            for flag, codec in codecs.items():
                if flags & flag:
                    size = int.from_bytes(body[:4], "little")
                    message = pa.decompress(body[4:], size, codec, asbytes=True)
                    assert pa.ipc.read_message(message).type == "record batch"
                    seen.add(flag)

    assert seen == set(codecs)


# --- tails ---


def test_slots_are_those_of_the_page() -> None:
    partition = b"l" * 16 + b"t" * 16 + (3).to_bytes(4, "little")
    seed = tail_seed(partition, 7)
    assert seed == google_crc32c.value(partition + b" tail 7")
    # All different, and so large or small that a sign or a width counts.
    u32, u64 = range(2**32 - 9, 2**32), range(2**64 - 9, 2**64)
    end = End(
        *(u64[1], b"bootboot", u32[1], u32[2], u64[2], u64[3], -6, u64[4]),
        *(u32[3], u32[4], u64[5]),
    )
    durable = Durable(True, u32[1], u64[1], u64[2], u32[2], -5, u64[3])
    fence = Fence(u32[1], u64[1], u64[2])

    for heading, at, slot, fields in (
        ("### The end", 0, pack_end(seed, end), (1, *end)),
        ("### The durable mark", DURABLE_AT, pack_durable(seed, durable), durable),
        ("### The fence", FENCE_AT, pack_fence(seed, fence), (1, *fence)),
    ):
        shown = layout(heading)
        assert (shown.start, shown.struct.size) == (at, len(slot))
        assert shown.struct.unpack(slot) == (
            google_crc32c.extend(seed, slot[4:]),
            magic(shown.meanings[1]),
            *fields,
        )
    assert numbers(layout("### The fence").meanings[3]) == [DROPPED]
    assert numbers(layout("### The fence").meanings[4]) == [UNSEALED]
    request = layout("### The request for the lock")
    assert (request.start, request.struct.size) == (WANTED_AT, len(WANTED))
    assert request.struct.unpack(WANTED) == (numbers(request.meanings[0])[0],)


def test_tails_of_a_store_read_as_the_page_says(files: Files) -> None:
    end_slot, fence = layout("### The end"), layout("### The fence")
    for path, content in ending(files, ".tail"):
        manifest = body_of(files[path.removesuffix(".tail") + ".manifest"])
        identity = log_id(files).bytes + UUID(manifest["topic_id"]).bytes
        identity += manifest["partition"].to_bytes(4, "little")
        seed = google_crc32c.value(b"%s tail %d" % (identity, manifest["epochs"][-1]["number"]))

        checksum, _, _, generation, _, epoch, number, position, *_ = end_slot.unpack(content)

        assert len(content) == TAIL_BYTES
        assert f"{TAIL_BYTES} bytes, never synced" in format_page.text()
        assert checksum == google_crc32c.extend(seed, content[4 : end_slot.struct.size])
        assert (generation, epoch) == (manifest["generation"], manifest["epochs"][-1]["number"])
        assert number == manifest["segments"][-1]["number"]
        assert content[fence.start :] == bytes(TAIL_BYTES - fence.start)
        segment = files[f"{path[:-15]}segments/{epoch:010d}-{number:010d}.segment"]
        assert [FRAMES_AT, *(each[1] for each in frames_in(segment))][-1] == position
