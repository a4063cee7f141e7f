"""What a caller may say with `.option(…)` of a write, checked before anything is staged."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from strandline.opening import absolute_url
from strandline.spark.options import Options
from strandline.values import Durability, InvalidError, parse_tenant
from strandline.values.names import check_no_control, check_text

WRITE_OPTIONS: Final = (
    *("path", "topic", "tenant", "durability", "txnAppId", "txnVersion"),
    # Of a view that is inserted into: the topic that it reads.
    "subscribe",
    # Of the Kafka sink: headers are a column, with or without it.
    "includeHeaders",
    # Spark's own, which a stream's writer is shown too.
    "checkpointLocation",
    "queryName",
)
_VERSION_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """Where rows go, and as which write."""

    url: str
    #: None where a column of that name has it.
    topic: str | None
    tenant: str | None
    durability: Durability
    #: In place of the query's id, or None.
    app: str | None
    #: Of a batch write: which of the app's; None on a stream, whose batches are numbered.
    version: int | None


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


def stream_settings(given: Mapping[str, str]) -> SinkSettings:
    """Return the settings of `df.writeStream`; InvalidError for anything that is not one."""
    settings = _settings(given)
    if settings.version is not None:
        raise InvalidError(
            "a stream numbers its batches by itself, txnVersion is for df.write alone",
            txnVersion=settings.version,
        )
    return settings


def check_append(*, overwrite: bool) -> None:
    """Raise InvalidError for a mode that would replace what a topic holds."""
    if overwrite:
        raise InvalidError("a topic is only ever appended to, use mode or outputMode append")


def _settings(given: Mapping[str, str]) -> SinkSettings:
    options = Options(given, WRITE_OPTIONS)
    app = options.text("txnAppId")
    level = Durability.parse(options.choice("durability", "durable", "written"))
    return SinkSettings(
        url=absolute_url(options.text("path")),
        topic=_topic(options),
        tenant=parse_tenant(options.text("tenant")),
        durability=level,
        app=None if app is None else check_no_control(check_text(app, "txnAppId"), "txnAppId"),
        version=_version(options),
    )


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
