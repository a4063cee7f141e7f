"""A file log whose history was rewritten, with every checksum right."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from strandline.log.chain import Chain
from strandline.stores.files.frame import Frame
from strandline.stores.files.proving import value_after
from strandline.values import Event, ProofHead, ProofReport
from tests.log.files.forging import Forger, changed
from tests.logs import file_log
from tests.planting import Bug

EVENTS = 9

Forgery = Callable[[list[Frame]], Sequence[Frame]]


def change_a_byte(frames: list[Frame]) -> Sequence[Frame]:
    return [*frames[:4], changed(frames[4], b'"n":4', b'"n":7'), *frames[5:]]


def change_a_key(frames: list[Frame]) -> Sequence[Frame]:
    return [*frames[:4], changed(frames[4], b"key-4", b"key-5"), *frames[5:]]


def change_a_timestamp(frames: list[Frame]) -> Sequence[Frame]:
    later = frames[4]._replace(timestamp_us=frames[5].timestamp_us)
    return [*frames[:4], later, *frames[5:]]


def drop_a_record(frames: list[Frame]) -> Sequence[Frame]:
    return [*frames[:4], *frames[5:]]


def swap_two_records(frames: list[Frame]) -> Sequence[Frame]:
    first, second = frames[4], frames[5]
    return [
        *frames[:4],
        second._replace(timestamp_us=first.timestamp_us),
        first._replace(timestamp_us=second.timestamp_us),
        *frames[6:],
    ]


def insert_a_record(frames: list[Frame]) -> Sequence[Frame]:
    added = frames[2]._replace(timestamp_us=frames[3].timestamp_us)
    return [*frames[:4], added, *frames[4:]]


INSIDE = [
    change_a_byte,
    change_a_key,
    change_a_timestamp,
    drop_a_record,
    swap_two_records,
    insert_a_record,
]


def drop_the_last_record(frames: list[Frame]) -> Sequence[Frame]:
    return frames[:-1]


def change_the_last_record(frames: list[Frame]) -> Sequence[Frame]:
    return [*frames[:-1], changed(frames[-1], b'"n":8', b'"n":9')]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def head(path: Path) -> ProofHead:
    return make(path)


def make(path: Path) -> ProofHead:
    """Return the head of a log with a few events, each in a separate frame."""
    with file_log(str(path)) as log:
        log.create_topic("orders", proof=True)
        for number in range(EVENTS):
            log.append("orders", Event("order.created", {"n": number}, key=f"key-{number}"))
        return log.proof_head("orders", 0)


def verified(path: Path, *expected: ProofHead) -> ProofReport:
    with file_log(str(path), mode="read") as log:
        (report,) = log.verify("orders", expected=expected)
    return report


def readable(path: Path) -> int:
    with file_log(str(path), mode="read") as log:
        return sum(1 for _ in log.read("orders", 0, log.marks("orders", 0).low))


def test_the_forger_can_write_what_was_there(path: Path, head: ProofHead) -> None:
    forger = Forger(path)

    for with_chain in (False, True):
        forger.write(forger.frames, with_chain=with_chain)
        assert verified(path, head).head == head


@pytest.mark.parametrize("forge", INSIDE)
def test_a_change_with_right_checksums_is_found_in_its_place(
    path: Path, head: ProofHead, forge: Forgery
) -> None:
    forger = Forger(path)
    forger.write(forge(forger.frames))

    report = verified(path)

    assert readable(path) == report.records > 0, "no checksum says anything"
    assert report.findings[0].offset == 4
    assert report.head is None
    assert not verified(path, head).is_sound


@pytest.mark.parametrize("forge", [*INSIDE, drop_the_last_record, change_the_last_record])
def test_a_change_with_a_new_chain_is_found_by_the_head_that_was_kept(
    path: Path, head: ProofHead, forge: Forgery
) -> None:
    forger = Forger(path)
    forger.write(forge(forger.frames), with_chain=True)

    report = verified(path, head)

    assert verified(path).is_sound, "nothing in the log itself says anything"
    assert len(report.findings) == 1
    assert report.head is None


@pytest.mark.parametrize(
    ("forge", "old", "new"),
    [
        (change_a_byte, "_.join((_, _, _, _, _, value))", "packed + key_bytes + kind + headers"),
        (change_a_key, "_.join((_, key_bytes, _, _, _, _))", "packed + kind + headers + value"),
        (change_a_timestamp, "timestamp_us", "0"),
    ],
)
def test_a_digest_that_leaves_something_out_would_be_noticed(
    path: Path, forge: Forgery, old: str, new: str
) -> None:
    """What is planted here lets a forgery pass that the tests above want to see found."""
    with Bug(f"no {old}", Chain, "digest", old, new).planted():
        make(path)
        forger = Forger(path)
        forger.write(forge(forger.frames))

        assert verified(path).is_sound


def test_what_was_changed_stays_visible_after_sealing(path: Path, head: ProofHead) -> None:
    forger = Forger(path)
    forger.write(change_a_byte(forger.frames))

    with file_log(str(path)) as log:
        log.seal("orders")

    assert head.offset == EVENTS
    assert not verified(path).is_sound


def test_a_trim_behind_the_back_is_found_by_the_head_that_was_kept(
    path: Path, head: ProofHead
) -> None:
    with file_log(str(path)) as log:
        log.append("orders", Event("order.created", {"n": EVENTS}))
    forger = Forger(path)
    anchor = value_after(forger.frames[-1], "")

    forger.store_manifest(low=EVENTS + 1, anchor=anchor)

    assert verified(path).is_sound
    assert not verified(path, head).is_sound


def test_another_anchor_is_found(path: Path, head: ProofHead) -> None:
    with file_log(str(path)) as log:
        log.trim("orders", 0, 4)
    assert verified(path, head).is_sound
    forger = Forger(path)

    for anchor in (bytes(32), None):
        forger.store_manifest(anchor=anchor)
        assert [finding.offset for finding in verified(path).findings] == [4]


def test_damage_is_a_finding_and_the_rest_is_checked(path: Path, head: ProofHead) -> None:
    flip(Forger(path), 4)

    report = verified(path, head)

    assert [finding.offset for finding in report.findings] == [4]
    assert report.records == EVENTS - 1
    assert report.head is None


def test_damage_is_a_finding_without_a_proof_too(path: Path) -> None:
    with file_log(str(path)) as log:
        log.create_topic("orders")
        for number in range(EVENTS):
            log.append("orders", Event("order.created", {"n": number}))
    flip(Forger(path), 4)

    report = verified(path)

    assert [finding.offset for finding in report.findings] == [4]
    assert not report.is_proved


def test_a_timestamp_that_falls_is_found_without_a_proof(path: Path) -> None:
    with file_log(str(path)) as log:
        log.create_topic("orders")
        for number in range(EVENTS):
            log.append("orders", Event("order.created", {"n": number}))
    forger = Forger(path)
    early = forger.frames[4]._replace(timestamp_us=1)
    forger.write([*forger.frames[:4], early, *forger.frames[5:]])

    assert [finding.offset for finding in verified(path).findings] == [4]


def test_appends_and_trims_continue_after_damage_at_the_end(path: Path, head: ProofHead) -> None:
    flip(Forger(path), EVENTS - 1)

    with file_log(str(path)) as log:
        for number in range(3):
            log.append("orders", Event("order.created", {"n": number}))
        (report,) = log.verify("orders")
        assert [finding.offset for finding in report.findings] == [EVENTS - 1]
        assert report.records == EVENTS + 2
        log.trim("orders", 0, EVENTS)
        assert [finding.offset for finding in log.verify("orders")[0].findings] == [EVENTS]
        log.trim("orders", 0, EVENTS + 1)
        assert log.verify("orders")[0].is_sound, "the damage is gone"
        assert not log.verify("orders", expected=[head])[0].is_sound, "and so is what proved it"


def test_a_segment_that_is_missing_is_a_finding(path: Path, head: ProofHead) -> None:
    with file_log(str(path)) as log:
        log.seal("orders")
        log.append("orders", Event("order.created", {"n": EVENTS}))
        location = log.segments("orders", 0)[0].location
    assert location is not None
    Path(location).unlink()

    report = verified(path, head)

    assert [finding.offset for finding in report.findings] == [0, EVENTS]
    assert (report.end, report.records) == (EVENTS + 1, 1)


def flip(forger: Forger, frame: int) -> None:
    """Change a bit of a frame, and leave its checksum as it was."""
    segment = Path(forger.place.segment_path(forger.manifest.active))
    content = bytearray(segment.read_bytes())
    content[forger.frames[frame].end - 1] ^= 1
    segment.write_bytes(content)
