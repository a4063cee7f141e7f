"""The command that checks all records for damage and changes."""

from typing import TYPE_CHECKING, Annotated

import typer

from strandline.cli.command import command
from strandline.cli.exit_codes import ExitCode
from strandline.cli.options import Json, Tenant, Url, opened, topic_of
from strandline.cli.screen import note, printable, progress, show_json, show_table
from strandline.cli.user_files import reading, writing
from strandline.values import Mode, ProofHead, Topic
from strandline.values.json_forms import proof_json

if TYPE_CHECKING:
    from strandline.log import Log


@command(
    "verify",
    examples="""$ strandline verify
        $ strandline create audited --proof
        $ strandline append audited '{"id": 1}' --kind login
        $ strandline verify audited --heads heads.jsonl
        $ strandline verify audited --expected heads.jsonl --json""",
    answers="{is_sound, partitions: [{topic, tenant, partition, start, end, records, erased, "
    "is_proved, is_sound, head, findings: [{offset, reason}, …]}, …]}.",
)
def verify(
    topics: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TOPIC]...", help="These; else all, internal ones too."),
    ] = None,
    *,
    url: Url = None,
    expected: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Heads that were kept elsewhere, one on each line."),
    ] = None,
    heads: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write the heads of topics with a proof here."),
    ] = None,
    tenant: Tenant = None,
    json: Json = False,
) -> None:
    """Read everything, and report damage. Exits with 1 if there is any.

    Checksums, order and gaps of every topic; in a topic with a proof also that no
    record was changed, and with --expected that the history up to those heads is the same.
    """
    with opened(url, Mode.READ) as log:
        chosen = _chosen(log, topics, tenant)
        kept = [] if expected is None else _load_heads(expected)
        reports = check_topics(log, chosen, kept)
    if heads is not None:
        found = [each["head"] for each in reports if each["head"] is not None]
        with writing(heads) as file:
            file.writelines(bytes(each) + b"\n" for each in found)  # type: ignore[call-overload]
    is_sound = all(each["is_sound"] for each in reports)
    if json:
        show_json({"is_sound": is_sound, "partitions": reports})
    else:
        show_reports(reports)
    if not is_sound:
        raise typer.Exit(ExitCode.FAILED_CHECK)


def check_topics(
    log: "Log", topics: list[Topic], expected: list[ProofHead] | None = None
) -> list[dict[str, object]]:
    """Verify each topic, and return the reports as they are shown."""
    reports = []
    with progress("verifying", len(topics)) as bar:
        for topic in topics:
            own = [head for head in expected or () if head.topic_id == topic.id]
            reports += [
                proof_json(topic.name, topic.tenant, each)
                for each in log.verify(topic, expected=own)
            ]
            bar.advance()
    return reports


def show_reports(reports: list[dict[str, object]]) -> None:
    """Show a table of reports, and each finding."""
    columns = ("topic", "tenant", "partition", "start", "end", "records", "is_proved", "is_sound")
    names = ("topic", "tenant", "partition", "start", "end", "records", "proved", "sound")
    show_table(names, [[each[column] for column in columns] for each in reports])
    for each in reports:
        findings = each["findings"]
        assert isinstance(findings, list)
        for finding in findings:
            place = f"{each['topic']}/{each['partition']} at {finding['offset']}"
            note(f"{place}: {printable(finding['reason'])}")


def _chosen(log: "Log", names: list[str] | None, tenant: str | None) -> list[Topic]:
    if names:
        return [topic_of(log, name, tenant) for name in names]
    return [*log.topics(tenant=tenant), *log.topics(tenant=tenant, internal=True)]


def _load_heads(path: str) -> list[ProofHead]:
    with reading(path) as file:
        return [ProofHead.from_json(line) for line in file if line.strip()]
