"""The command about views, which reads their snapshots."""

from typing import TYPE_CHECKING, Annotated

import typer

from strandline.cli.command import command
from strandline.cli.options import Json, Url, opened
from strandline.cli.screen import show_json, show_table
from strandline.cli.user_files import reading
from strandline.values import InvalidError, Mode, Position, StrandlineError

if TYPE_CHECKING:
    from strandline.log import Log


@command(
    "views",
    examples="$ strandline views totals.snapshot",
    answers="{views: [{file, view, version, topic_id, partition, applied, lag, size_bytes, "
    "quarantined, refused, fits}, …]}: `applied` is one past the last offset in the snapshot; "
    "`fits` is yes, or the reason for which a view would replay.",
)
def views(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Snapshots of views.")],
    *,
    url: Url = None,
    json: Json = False,
) -> None:
    """Show the snapshots of views, and how far they are behind the log.

    A view is in the memory of the program that queries it; its snapshot is on disk.
    """
    with opened(url, Mode.READ) as log:
        found = [each for path in files for each in _sections(log, path)]
    if json:
        show_json({"views": found})
        return
    columns = ("view", "version", "partition", "applied", "lag", "size_bytes", "fits")
    show_table(columns, [[each[name] for name in columns] for each in found])


def _sections(log: "Log", path: str) -> "list[dict[str, object]]":
    from strandline.views.snapshot import unpacked  # noqa: PLC0415 Takes long to import.

    with reading(path) as file:
        binding, stored = unpacked(file.read(), path)
    if binding.log_id != log.id:
        raise InvalidError("this snapshot belongs to another log", file=path, log_id=binding.log_id)
    found: list[dict[str, object]] = []
    for partition, (section, state) in sorted(stored.items()):
        position = Position.from_json(section.position.encode())
        fits, lag = _fit(log, position)
        found.append(
            {
                "file": path,
                "view": binding.view,
                "version": binding.version,
                "topic_id": str(binding.topic_id),
                "partition": partition,
                "applied": section.end,
                "lag": lag,
                "size_bytes": len(state),
                "quarantined": len(section.quarantined),
                "refused": len(section.refused),
                "fits": fits,
            }
        )
    return found


def _fit(log: "Log", position: Position) -> tuple[str, int | None]:
    topics = [*log.topics(), *log.topics(internal=True)]
    names = {each.id: each for each in topics}
    try:
        offset = log.resolve(position)
    except StrandlineError as error:
        return f"{type(error).__name__}: {error}", None
    topic = names.get(position.topic_id)
    if topic is None:
        return "yes", None
    return "yes", log.marks(topic, position.partition).high - offset
