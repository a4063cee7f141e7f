"""From staged rows to rows in the log: exactly once for each (app, version).

The order of the steps is decided here only: staged files are complete and durable, the batch is
recorded, its rows are appended, it is marked finished. Before the batch is recorded no row is
visible; after that all rows become visible, also after a crash. See design 0051.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import google_crc32c

from strandline.log import Log
from strandline.spark.sink.fingerprint import Fingerprint
from strandline.spark.sink.folder import NAME
from strandline.spark.sink.intents import STAGED_AGE_S, Chunk, Intent, Intents, StagedPiece
from strandline.spark.sink.place import StagingFolder
from strandline.spark.sink.rolling import roll_forward
from strandline.spark.sink.staging import Block, Staged
from strandline.values import (
    ConflictError,
    Durability,
    InvalidError,
    Topic,
    UnavailableError,
)

CHUNK_ROWS: Final = 32_768
CHUNK_BYTES: Final = 8 * 1024 * 1024

#: The prefix of the random ids of writes without a name. No name begins with it.
JOB_PREFIX: Final = "\0job:"


def commit(
    log: Log,
    folder: StagingFolder,
    version: int,
    staged: Sequence[Staged],
    *,
    tenant: str | None,
    durability: Durability,
) -> None:
    """Put the staged rows into the log, unless this batch is there already.

    A batch that was recorded before is finished from its own files, as are older batches of
    the app; then ConflictError if its rows differ from these.
    """
    prints = _fingerprints(staged)
    if not prints and not folder.exists():
        return
    folder.make()
    with folder.locked():
        intents = Intents(folder)
        recorded = intents.find(version)
        new: Intent | None = None
        if recorded is None and prints:
            try:
                new = _intent(log, folder, version, staged, tenant=tenant, durability=durability)
            except InvalidError:
                # Without an exclusive lock another process may have finished this batch
                # meanwhile, and removed its staged files.
                recorded = intents.find(version)
                if recorded is None:
                    raise
            else:
                # The next line decides: from then on the batch will be written, also after a crash.
                recorded = intents.record(new)
        for pending in intents.unfinished():
            if pending.version <= version:
                is_new = new is not None and pending.id == new.id
                roll_forward(log, folder, pending, is_new=is_new)
        _tidy(folder, intents)
    if recorded is not None and recorded.fingerprint != prints:
        raise _other_content(recorded, prints)


def abort(folder: StagingFolder, staged: Iterable[Staged]) -> None:
    """Remove the files that an attempt has staged, but not those of a recorded batch.

    Files that cannot be removed now are swept later.
    """
    names = [name for each in staged for name in each.names]
    if not names or not folder.exists():
        return
    try:
        with folder.locked(timeout_s=0.0):
            intents = Intents(folder)
            intents.remove_staged(names)
            if folder.app.startswith(JOB_PREFIX) and intents.is_empty():
                folder.remove_all()
    except UnavailableError:
        pass


def sweep(folders: Iterable[StagingFolder]) -> None:
    """Remove files of killed writers that no retry will use."""
    for folder in folders:
        try:
            with folder.locked(timeout_s=0.0):
                intents = Intents(folder)
                intents.sweep()
                # A writer may be about to fill a new folder.
                if folder.age_s(NAME) > STAGED_AGE_S:
                    _tidy(folder, intents)
        except (UnavailableError, FileNotFoundError):
            continue


def finish_all(log: Log, folders: Iterable[StagingFolder]) -> int:
    """Finish every batch that was recorded in these and interrupted; return how many."""
    finished = 0
    for folder in folders:
        with folder.locked():
            intents = Intents(folder)
            for pending in intents.unfinished():
                roll_forward(log, folder, pending, is_new=False)
                finished += 1
            _tidy(folder, intents)
    return finished


def _tidy(folder: StagingFolder, intents: Intents) -> None:
    """Remove files that are no longer needed; all of them for a finished write without a name."""
    if folder.app.startswith(JOB_PREFIX) and not intents.unfinished():
        folder.remove_all()
    else:
        intents.sweep()


def _fingerprints(staged: Iterable[Staged]) -> dict[str, tuple[int, int]]:
    found: dict[str, Fingerprint] = {}
    for each in staged:
        for topic, part in each.fingerprints.items():
            found[topic] = found.get(topic, Fingerprint()) + part
    return {topic: (each.rows, each.total) for topic, each in found.items()}


def _intent(
    log: Log,
    folder: StagingFolder,
    version: int,
    staged: Sequence[Staged],
    *,
    tenant: str | None,
    durability: Durability,
) -> Intent:
    """Return the intent to record; all its files are complete."""
    parts = sorted((each for each in staged if each.names), key=lambda each: each.task)
    files: list[str] = []
    topics = list(dict.fromkeys(text for each in parts for text in each.topics))
    blocks: dict[tuple[int, int], list[tuple[int, Block]]] = {}
    for each in parts:
        _check_files(folder, each)
        for block in each.blocks:
            topic = topics.index(each.topics[block.topic])
            number = len(files) + block.file
            blocks.setdefault((topic, block.partition), []).append((number, block))
        files += each.names
    known = [Topic.from_json(text.encode()) for text in topics]
    chunks = []
    for (topic, partition), found in sorted(blocks.items(), key=lambda item: item[0]):
        start = int(log.marks(known[topic], partition).high)
        for group in _groups(found):
            pieces = [
                StagedPiece(n, b.offset, b.length, b.rows, b.crc, b.size_bytes) for n, b in group
            ]
            chunks.append(Chunk(topic, partition, start, pieces))
    return Intent(
        id=str(folder.clock.new_id()),
        app=folder.app,
        version=version,
        recorded_at_us=folder.clock.now_us(),
        fingerprint=_fingerprints(staged),
        tenant=tenant,
        durability=str(durability),
        topics=topics,
        files=files,
        chunks=chunks,
    )


def _groups(blocks: Sequence[tuple[int, Block]]) -> Iterable[list[tuple[int, Block]]]:
    """Yield the blocks of a partition in groups; each group is one append."""
    group: list[tuple[int, Block]] = []
    rows = size = 0
    for number, block in blocks:
        is_alone = group and (block.is_laid_out or group[-1][1].is_laid_out)
        is_full = rows + block.rows > CHUNK_ROWS or size + block.length > CHUNK_BYTES
        if group and (is_alone or is_full):
            yield group
            group, rows, size = [], 0, 0
        group.append((number, block))
        rows += block.rows
        size += block.length
    if group:
        yield group


def _check_files(folder: StagingFolder, staged: Staged) -> None:
    """Raise unless the files have the reported content. They may be swept or on another disk."""
    for block in staged.blocks:
        name = staged.names[block.file]
        try:
            content = folder.read(name, block.offset, block.length)
        except FileNotFoundError:
            content = b""
        if len(content) != block.length or google_crc32c.value(content) != block.crc:
            raise InvalidError(
                "rows that a task has staged are not there, run the batch again; on a cluster "
                "every machine sees the log, or a store that stagingLocation names",
                file=folder.path_of(name),
            )


def _other_content(recorded: Intent, prints: dict[str, tuple[int, int]]) -> ConflictError:
    then, now = (sum(rows for rows, _ in each.values()) for each in (recorded.fingerprint, prints))
    return ConflictError(
        "this batch was written before with other rows, and they are in the log; the rows of this "
        "attempt are not. For a stream: the end of its checkpoint was lost, and Spark has planned "
        "the batch again. Start the query with a new checkpoint at the place where the written "
        "batch ended, or, if rows may be there twice, give it another txnAppId. For df.write: use "
        "a new txnVersion for new rows, and a txnAppId for each topic",
        app=recorded.app,
        version=recorded.version,
        rows_written=then,
        rows_now=now,
    )
