"""Coverage-guided fuzzing of what reads bytes from outside: files of a log, of an import, bodies.

An input that reaches a line of ours which none before it has reached is kept, and mutated
further. Whatever is read, or refused with an error of ours, is right; anything else is a bug.
Checksums are made right again after a mutation, or nothing behind them would be reached.
"""

import atexit
import contextlib
import functools
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import google_crc32c
import pyarrow as pa

import strandline as sl
from strandline.cli.transfer_file import read_rows
from strandline.io import SystemIo
from strandline.server.bodies import values_of
from strandline.server.endpoint import ARROW
from strandline.server.problems import RequestError
from strandline.stores.files import checked, frame, manifest, tail
from strandline.stores.files.entries import entries_of
from strandline.values import ValueKind
from tests.core.fuzz import mutated

INPUTS_PER_SEED = 2_000
_OURS = str(Path(sl.__file__).parent)
_BODY_BYTES_MAX = 1_000_000


class Decoder(NamedTuple):
    """A name, one sound input, and what reads it."""

    name: str
    sound: bytes
    read: Callable[[bytes], object]


class Totals(sl.View[dict[str, int]]):
    """What a snapshot is of."""

    version = 1

    def initial(self, partition: int) -> dict[str, int]:  # noqa: ARG002 - Each is the same.
        return {}

    def apply(self, state: dict[str, int], record: sl.Record) -> None:
        state[str(record.key)] = record.offset

    def encode(self, state: dict[str, int]) -> bytes:
        return repr(sorted(state.items())).encode()

    def decode(self, stored: bytes) -> dict[str, int]:
        return {stored.decode(errors="replace"): 1}


def decoders(folder: Path) -> Iterator[Decoder]:
    """Yield each decoder, with what a small log has written as its first input."""
    url = f"file:{folder / 'log'}"
    with sl.open(url) as log:
        log.create_topic("t")
        log.append_many("t", [sl.Event("made", {"n": n}, key=f"k{n % 3}") for n in range(20)])
        with sl.LiveView(log, "t", Totals(), snapshot=str(folder / "snapshot")) as view:
            view.reconcile([0])
            view.wait_ready(timeout_s=60)
    yield from _frames(folder)
    yield from _stored(folder)
    yield from _bodies()
    yield Decoder("import of lines", _exported(url, folder / "t.jsonl"), _imported("jsonl"))
    yield Decoder("import of Parquet", _exported(url, folder / "t.parquet"), _imported("parquet"))


def _stored(folder: Path) -> Iterator[Decoder]:
    io, place = SystemIo(), folder / "damaged"
    (found,) = (folder / "log").rglob("*.manifest")
    head, _, content = found.read_bytes().partition(b"\n")
    kept = checked.load(io, str(found), manifest.KIND, manifest.Manifest)
    version = int(head.split()[-2])

    def read_manifest(given: bytes) -> object:
        begun = head.rpartition(b" ")[0]
        crc = google_crc32c.extend(google_crc32c.value(begun), given)
        place.write_bytes(b"%s %08x\n" % (begun, crc) + given)
        return manifest.load_manifest(io, str(place), kept.log_id, kept.topic_id, kept.partition)

    def read_snapshot(given: bytes) -> object:
        place.write_bytes(given)
        saved = sl.load_snapshot(str(place), Totals())
        return [saved.state(partition) for partition in saved.partitions]

    assert version == checked.FORMAT
    yield Decoder("manifest", content, read_manifest)
    yield Decoder("snapshot", (folder / "snapshot").read_bytes(), read_snapshot)
    (last,) = (folder / "log").rglob("*.tail")
    yield Decoder("tail", last.read_bytes(), _read_tail)


def _frames(folder: Path) -> Iterator[Decoder]:
    """Yield a frame of rows, and one of columns."""
    url = f"file:{folder / 'frames'}"
    with sl.open(url) as log:
        for topic, events in (("rows", 1), ("columns", 300)):
            log.create_topic(topic)
            log.append_many(topic, [sl.Event("made", {"n": n}, key="k") for n in range(events)])
            (written,) = (folder / "frames" / "topics").glob(
                f"{log.topic(topic).id}/0/segments/*.segment"
            )
            content = written.read_bytes()
            at = content.index(frame.MAGIC) - frame.MAGIC_AT
            length = frame.frame_bytes(content, at)
            assert length is not None
            yield Decoder(f"frame of {topic}", content[at : at + length], _read_frame)


def _read_frame(given: bytes) -> object:
    length = frame.frame_bytes(given, 0)
    if length is not None:
        given = google_crc32c.value(given[4:length]).to_bytes(4, "little") + given[4:]
    found = frame.decode_frame(0, given, 0, 0)
    return None if found is None else entries_of(found, ValueKind.EVENT, "a segment")


def _read_tail(given: bytes) -> object:
    whole = bytearray(given.ljust(tail.TAIL_BYTES, b"\0")[: tail.TAIL_BYTES])
    for at, end in ((0, tail.END_BYTES), (tail.DURABLE_AT, tail.DURABLE_AT + tail.END_BYTES)):
        whole[at : at + 4] = google_crc32c.value(bytes(whole[at + 4 : end])).to_bytes(4, "little")
    return tail.unpack(0, bytes(whole))


def _bodies() -> Iterator[Decoder]:
    batch = pa.record_batch({"kind": ["a"], "payload": ["{}"], "key": ["k"]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    event = b'{"kind":"a","payload":{"n":[1,2.5,null]},"key":"k","headers":{"h":"v"}}'
    cloud = b'{"specversion":"1.0","id":"1","source":"/s","type":"t","subject":"k","data":{"a":1}}'
    for name, media, sound in (
        ("event", "application/json", event),
        ("lines", "application/x-ndjson", event + b"\n" + event + b"\n"),
        ("CloudEvent", "application/cloudevents+json", cloud),
        ("Arrow", ARROW, sink.getvalue().to_pybytes()),
    ):
        yield Decoder(f"HTTP body, {name}", sound, _body(media))


def _body(media: str) -> Callable[[bytes], object]:
    def read(given: bytes) -> object:
        with contextlib.suppress(RequestError):
            return values_of(given, {"content-type": media}, ValueKind.EVENT, None, _BODY_BYTES_MAX)
        return None

    return read


def _exported(url: str, path: Path) -> bytes:
    command = [sys.executable, "-m", "strandline", "export", "t", str(path), "--url", url]
    subprocess.run(command, check=True, capture_output=True)
    return path.read_bytes()


def _imported(file_format: str) -> Callable[[bytes], object]:
    def read(given: bytes) -> object:
        _, rows = read_rows(BytesIO(given), file_format)
        return list(rows)

    return read


class Guided:
    """The inputs of one decoder that reached something new, and what none has reached yet."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        #: By the id of its code, which is kept here, too: the lines that are left.
        self._left: dict[int, tuple[CodeType, set[int]]] = {}
        self._is_new = False
        self.kept: list[bytes] = []
        self._try(decoder.sound)
        assert self.kept, f"{decoder.name}: the sound input reaches nothing"

    def run(self, inputs: int, chosen: random.Random) -> None:
        """Try so many inputs; AssertionError for one that is neither read nor refused."""
        for _ in range(inputs):
            self._try(mutated(chosen, chosen.choice(self.kept)))

    def _try(self, given: bytes) -> None:
        self._is_new = False
        sys.settrace(self._called)
        try:
            self._decoder.read(given)
        except sl.StrandlineError:
            pass
        except Exception as error:
            raise AssertionError(f"{self._decoder.name}: {error!r} of {given!r}") from error
        finally:
            sys.settrace(None)
        if self._is_new:
            self.kept.append(given)

    def _called(self, run: FrameType, event: str, _: Any) -> Any:  # noqa: ARG002 - A call.
        """Trace the lines of a function of ours, unless all of them were reached."""
        code = run.f_code
        known = self._left.get(id(code))
        if known is None:
            is_ours = code.co_filename.startswith(_OURS)
            lines = {line for _, _, line in code.co_lines() if line is not None}
            known = self._left[id(code)] = code, lines if is_ours else set()
        return self._traced if known[1] else None

    def _traced(self, run: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            left = self._left[id(run.f_code)][1]
            if run.f_lineno in left:
                left.discard(run.f_lineno)
                self._is_new = True
        return self._traced


@functools.cache
def _each_guided() -> Sequence[Guided]:
    """Return the decoders, each with what it has reached in this process."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    return [Guided(decoder) for decoder in decoders(Path(folder.name))]


def run(seed: int) -> None:
    """Give each decoder so many inputs, made of what earlier seeds have kept, too."""
    chosen = random.Random(seed)
    for guided in _each_guided():
        guided.run(INPUTS_PER_SEED, chosen)
