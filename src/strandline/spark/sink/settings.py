"""The options of a write, checked before anything is staged."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from strandline.spark.log_urls import spark_url
from strandline.spark.options import Options
from strandline.spark.sink.staging_place import StagingPlace
from strandline.values import Durability, InvalidError, parse_tenant
from strandline.values.names import check_no_control, check_text

WRITE_OPTIONS: Final = (
    *("path", "topic", "tenant", "durability", "txnAppId", "txnVersion", "stagingLocation"),
    # The kind of events that are given as key and value.
    "kind",
    # For an insert into a view: the topic that the view reads.
    "subscribe",
    # Of Kafka's sink, where it adds a column of headers; here it changes nothing.
    "includeHeaders",
    # Spark's own options, which it passes to the writer of a stream, too.
    "checkpointLocation",
    "queryName",
)
_VERSION_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """The topic of the rows, and the identity of the write."""

    url: str
    #: None if the column `topic` names it.
    topic: str | None
    tenant: str | None
    durability: Durability
    #: In place of the query's id, or None.
    app: str | None
    #: The number of a batch write of the app; None on a stream, whose batches are numbered.
    version: int | None
    #: An object store for the rows of a log without a disk that all tasks share.
    staging: str | None
    #: The kind of events that are given as key and value, without a header `kind`.
    event_kind: str | None
    #: Whether each batch of a stream is a whole result, whose rows replace those of their keys.
    is_upsert: bool = False

    @property
    def place(self) -> StagingPlace:
        """Where rows are staged."""
        return StagingPlace(self.url, self.staging)


def batch_settings(given: Mapping[str, str]) -> SinkSettings:
    """Return the settings of `df.write`; InvalidError for anything that is not one."""
    settings = _settings(given)
    if (settings.app is None) != (settings.version is None):
        raise InvalidError(
            "txnAppId and txnVersion together name a write, give both or neither",
            txnAppId=settings.app,
            txnVersion=settings.version,
        )
    return settings


def stream_settings(
    given: Mapping[str, str], columns: Sequence[str] = (), *, is_complete: bool = False
) -> SinkSettings:
    """Return the settings of `df.writeStream`; InvalidError for anything that is not one.

    In output mode complete every batch has all rows of the result: they need keys, by which
    the latest value of each is found.
    """
    settings = replace(_settings(given), is_upsert=is_complete)
    if is_complete and not {"key", "_key"} & {*columns}:
        raise InvalidError(
            "in output mode complete a row replaces what its key had before, so it has a column "
            "key, or _key for a typed topic",
            columns=list(columns),
        )
    if settings.version is not None:
        raise InvalidError(
            "a stream numbers its batches by itself, txnVersion is for df.write alone",
            txnVersion=settings.version,
        )
    return settings


def check_append(*, overwrite: bool) -> None:
    """Raise InvalidError for a mode that would replace what a topic holds."""
    if overwrite:
        raise InvalidError("a topic is only ever appended to, use mode append")


def _settings(given: Mapping[str, str]) -> SinkSettings:
    options = Options(given, WRITE_OPTIONS)
    app = options.text("txnAppId")
    level = Durability.parse(options.choice("durability", "durable", "written"))
    settings = SinkSettings(
        url=spark_url(options.text("path")),
        topic=_topic(options),
        tenant=parse_tenant(options.text("tenant")),
        durability=level,
        app=None if app is None else check_no_control(check_text(app, "txnAppId"), "txnAppId"),
        version=_version(options),
        staging=options.text("stagingLocation"),
        event_kind=options.text("kind"),
    )
    settings.place.check()
    return settings


def _topic(options: Options) -> str | None:
    name = options.only_one("topic", "subscribe")
    found = None if name is None else options.text(name)
    if name == "subscribe" and found is not None and "," in found:
        raise InvalidError("rows are inserted into one topic, subscribe to one", subscribe=found)
    return found


def _version(options: Options) -> int | None:
    text = options.text("txnVersion")
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or int(text) > _VERSION_MAX:
        raise InvalidError("txnVersion is a whole number from 0 on", value=text)
    return int(text)
