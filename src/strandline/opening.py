"""Opens a log: finds the store of a URL and composes the log."""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, NamedTuple

from strandline.clock import Clock
from strandline.io import SystemIo, real_parent, real_path
from strandline.log import Broker, Log, Store
from strandline.log.copies import CopiedPartition, Ends, Progress
from strandline.log.examined import Examined
from strandline.stores.files import FileStore, copy_file_log
from strandline.stores.memory import MemoryStore
from strandline.stores.sqlite import SqliteStore, copy_sqlite_log, describe_sqlite
from strandline.telemetry import tracing_by
from strandline.tiering import Tier
from strandline.values import (
    RECORD_BYTES_MAX,
    InvalidError,
    LogDescription,
    Mode,
    ModeName,
    parse_log_url,
)
from strandline.values.arguments import check_flag, check_path
from strandline.values.extras import install_command, needing_module
from strandline.values.log_url import SCHEMES
from strandline.values.names import check_text
from strandline.values.payloads import Encoder

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

URL_VARIABLE = "STRANDLINE_URL"
STATE_DIR_VARIABLE = "STRANDLINE_STATE_DIR"
TOKEN_VARIABLE = "STRANDLINE_TOKEN"  # noqa: S105 - Its name.
TLS_CA_VARIABLE = "STRANDLINE_TLS_CA"
NATS_PASSWORD_VARIABLE = "STRANDLINE_NATS_PASSWORD"  # noqa: S105 - Its name.
STORES_GROUP = "strandline.stores"
"""The entry points with which a package registers its own stores: scheme = `StoreKind`."""

_STATE_DIR = ".strandline"
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]+:")
_POSTGRES_SECRET = re.compile(r"\A//[^/?]*:[^/?]+@|[?&](ssl)?password=")
_NATS_USER = re.compile(r"(?://)?([^@/?]*)@")


class StoreKind(NamedTuple):
    """A kind of store, registered for a URL scheme."""

    #: Opens the store at the rest of a URL; gets `mode`, `clock` and the given options.
    open_store: "Callable[..., Store[Any]]"
    #: The form of such a URL, for messages.
    form: str
    #: The options in addition to those of every log.
    options: frozenset[str] = frozenset()
    #: Describes a log without opening it, if opening would change a byte.
    describe: Callable[[str], LogDescription] | None = None
    #: Makes the rest of a URL independent of the process; None if other processes cannot use it.
    locate: Callable[[str], str] | None = None
    #: Returns the directory in which Spark's tasks may stage files for a log.
    staging: Callable[[str], str] | None = None
    #: Copies a whole log while other processes write to it.
    copy: "Callable[..., list[CopiedPartition]] | None" = None
    #: Whether an existing path is that of such a log.
    is_at: Callable[[str], bool] | None = None
    #: The extra that it needs, if any.
    extra: str | None = None
    #: Whether this process reads evicted records from the tier; False if a server does.
    reads_tier: bool = True
    #: Checks the server of such logs, without changing it.
    examine: Callable[[str], "Iterable[Examined]"] | None = None
    #: Whether the rest of a URL contains a password or token.
    carries_secret: Callable[[str], bool] | None = None


def open_log(
    url: str | None = None,
    *,
    mode: Mode | ModeName = Mode.WRITE,
    clock: Clock | None = None,
    auto_create: bool = False,
    record_bytes_max: int = RECORD_BYTES_MAX,
    broker: Broker | None = None,
    queue_depth: int | None = None,
    encoder: Encoder | None = None,
    retention: bool = True,
    telemetry: "bool | TracerProvider | None" = None,
    **options: Any,
) -> Log:
    """Open the log that `url` names; the caller closes it.

    *URL.* `memory:` makes a log that only the returned object has. `file:<path>` and
    `sqlite:<path>` are created by mode `write` where they are missing. `file:///<path>` is
    absolute; `sqlite:///<path>` is relative and `sqlite:////<path>` absolute, as in
    SQLAlchemy; a host and `~` are refused. Without a URL it is STRANDLINE_URL, and without
    that `file:` in STRANDLINE_STATE_DIR, or in `.strandline`.

    *Mode.* `write`; `consume` reads, acks and dead-letters; `read` changes no byte.

    *Topics.* With `auto_create`, an append to an unknown topic creates it.
    `record_bytes_max` is the largest record that an append takes. With `retention=False`
    this process does not apply the topics' retention in the background.

    *Reading.* `queue_depth` is how many records a subscription without `read_ahead` holds in
    memory; None means STRANDLINE_QUEUE_DEPTH, or 128. A `broker` carries wake-ups and lists
    subscriptions, see `Broker`; the caller closes it.

    *Payloads.* `log.event` uses the `encoder`, such as `as_json`, for other values than JSON.

    *Spans.* With `telemetry`, True or a `TracerProvider`, appends and deliveries create
    OpenTelemetry spans; None means STRANDLINE_TELEMETRY.

    *Options* depend on the store, and the page of the interface lists them. InvalidError for
    an option that this store does not have.
    """
    kind, location = _parse(url)
    given = _known(options, kind)
    tracing = tracing_by(telemetry)
    store = kind.open_store(location, mode=Mode.parse(mode), clock=clock, **given)
    try:
        return Log(
            store,
            tier=Tier() if kind.reads_tier else None,
            broker=broker,
            clock=clock,
            auto_create=auto_create,
            record_bytes_max=record_bytes_max,
            queue_depth=queue_depth,
            encoder=encoder,
            retention=retention,
            tracing=tracing,
        )
    except BaseException:
        store.close()
        raise


def _known(options: Mapping[str, Any], kind: StoreKind) -> Mapping[str, Any]:
    """Return the given options; InvalidError for one that the store does not have."""
    for name in ("exclusive", "take_over"):
        check_flag(name, options.get(name, False))
    given = {
        name: value for name, value in options.items() if value is not None and value is not False
    }
    if strange := sorted(given.keys() - kind.options):
        raise InvalidError(
            "this kind of log has no such options", options=strange, known=sorted(kind.options)
        )
    return given


def describe(url: str | None = None) -> LogDescription:
    """Describe the log at `url`; without a URL as `open_log`.

    Nothing is created, and no byte of the log changes. InvalidError if there is no log,
    and for `memory:`, which only the process that opened it can reach.
    """
    kind, location = _parse(url)
    if kind.describe is not None:
        return kind.describe(location)
    with Log(kind.open_store(location, mode=Mode.READ, clock=None)) as log:
        return log.describe()


def examine(url: str) -> "Iterable[Examined]":
    """Check the server of a log, which need not exist yet; changes nothing.

    InvalidError for a log that has no server.
    """
    kind, location = _parse(url)
    if kind.examine is None:
        advice = "" if kind.locate is None else ", examine its folder with --path"
        raise InvalidError(f"such a log has no server{advice}", url=url)
    return kind.examine(location)


def absolute_url(url: str | None) -> str:
    """Return the URL in a form for every process of this machine; None as for `open_log`.

    InvalidError for a log that no other process can reach.
    """
    chosen = default_url() if url is None else url
    kind, location = _parse(chosen)
    if kind.locate is None:
        raise InvalidError(
            "such a log belongs to one process and this takes several, use file: or sqlite:",
            url=chosen,
        )
    return f"{chosen.partition(':')[0]}:{kind.locate(location)}"


def carries_secret(url: str) -> bool:
    """Whether a URL contains a password or a token, so that it must not be shown or stored."""
    kind, location = _parse(url)
    return kind.carries_secret is not None and kind.carries_secret(location)


def staging_path(url: str) -> str | None:
    """Return the directory for staged files of a log; its parent exists.

    None for a log that is not on a disk of this machine.
    """
    kind, location = _parse(url)
    return None if kind.staging is None else kind.staging(location)


def copy_log(
    source: str, target: str, *, ends: Ends | None = None, progress: Progress | None = None
) -> list[CopiedPartition]:
    """Copy a whole log to a place of the same kind, up to `ends`, while processes write to it.

    A copy that fails leaves no target. InvalidError if the two are of different kinds, or
    their kind cannot be copied.
    """
    kind, path = _parse(source)
    if kind.copy is None:
        raise InvalidError("such a log cannot be copied, use file: or sqlite:", url=source)
    target_kind, target_path = _parse(target)
    if kind is not target_kind:
        raise InvalidError(
            "a copy is of the same kind as its log; use export and import for another",
            source=source,
            target=target,
        )
    return kind.copy(path, target_path, ends=ends, progress=progress)


def place_url(place: object, *, like: str | None = None) -> str:
    """Return the URL of a log that is given by its URL or by a path.

    A path is that of a log of the same kind as `like`; without `like`, the kind is detected:
    InvalidError if there is no log. Text with a scheme is a URL, and checked later.
    """
    if isinstance(place, str) and _SCHEME.match(place):
        return str.__str__(place)
    path = check_path("place", place)
    if like is not None:
        return f"{like.partition(':')[0]}:{path}"
    if SystemIo().exists(path):
        for scheme, kind in _KINDS.items():
            if kind.is_at is not None and kind.is_at(path):
                return f"{scheme}:{path}"
    raise InvalidError("there is no log at this path", path=path)


def url_in(scheme: str, directory: str) -> str:
    """Return the URL of a log of this kind in a directory; InvalidError for an unknown kind."""
    return _kind(scheme).form.replace("PATH", os.path.join(directory, "log"))


def is_shared(url: str | None) -> bool:
    """Whether other processes than the one that opens it can reach the log at `url`."""
    return _parse(url)[0].locate is not None


def is_served(url: str) -> bool:
    """Whether `url` is the URL of a Strandline server."""
    return not _parse(url)[0].reads_tier


def default_url() -> str:
    """Return the URL that the environment names; InvalidError for an empty variable."""
    url = os.environ.get(URL_VARIABLE)
    if url is not None:
        return _not_blank(URL_VARIABLE, url)
    state_dir = os.environ.get(STATE_DIR_VARIABLE, _STATE_DIR)
    return f"file:{_not_blank(STATE_DIR_VARIABLE, state_dir)}/events"


def _is_directory(path: str) -> bool:
    return SystemIo().stat(real_path(path)).is_directory


def _open_memory(location: str, *, mode: Mode, clock: Clock | None) -> MemoryStore:
    del location  # There is none.
    if mode is not Mode.WRITE:
        raise InvalidError(
            "a memory: log is new and only its opener writes it, open it for writing",
            mode=str(mode),
        )
    return MemoryStore(clock)


def _describe_memory(location: str) -> LogDescription:
    raise InvalidError(
        "a memory: log can only be reached through the object that opened it, use that",
        url=f"memory:{location}",
    )


class _Engine(NamedTuple):
    """A store that needs an extra: imported when such a log is first opened."""

    scheme: str
    #: Its package in `stores`, and its class.
    package: str
    store: str
    #: The client library, and the extra that installs it.
    library: str
    extra: str

    def open_store(self, location: str, **options: Any) -> "Store[Any]":
        with needing_module(self.library, self.extra):
            module = import_module(f"strandline.stores.{self.package}")
        opened: Store[Any] = getattr(module, self.store)(f"{self.scheme}:{location}", **options)
        return opened

    def examine(self, location: str) -> "Iterable[Examined]":
        try:
            module = import_module(f"strandline.stores.{self.package}.examining")
        except ModuleNotFoundError:
            command = install_command(self.extra)
            return [Examined(self.library, "failed", "not installed", command)]
        found: Iterable[Examined] = module.examine(f"{self.scheme}:{location}")
        return found

    def kind(
        self,
        form: str,
        options: Iterable[str],
        *,
        carries_secret: Callable[[str], bool] | None = None,
    ) -> StoreKind:
        return StoreKind(
            self.open_store,
            form,
            frozenset(options),
            locate=lambda location: location,
            extra=self.extra,
            examine=self.examine,
            carries_secret=carries_secret,
        )


def _has_nats_secret(location: str) -> bool:
    """Whether there is a password, or a token: a user without a password may be a token."""
    found = _NATS_USER.match(location)
    user, _, password = (found[1] if found else "").partition(":")
    return bool(password) or (bool(user) and not os.environ.get(NATS_PASSWORD_VARIABLE))


_POSTGRES = _Engine("postgresql", "postgres", "PostgresStore", "psycopg", "postgres").kind(
    "postgresql://USER@HOST/DATABASE",
    {"schema", "lock_timeout_s", "connect_timeout_s"},
    carries_secret=lambda location: bool(_POSTGRES_SECRET.search(location)),
)
_NATS = _Engine("nats", "jetstream", "JetStreamStore", "nats-py", "nats").kind(
    "nats://USER@HOST:PORT/LOG",
    {
        *("replicas", "system_url", "tls_ca", "tls_cert", "tls_key"),
        *("connect_timeout_s", "patience_s"),
    },
    carries_secret=_has_nats_secret,
)
_KAFKA = _Engine("kafka", "kafka", "KafkaStore", "confluent-kafka", "kafka").kind(
    "kafka://HOST:PORT/PREFIX",
    {
        *("replicas", "sync", "client_file", "mechanism", "tls", "tls_ca", "tls_cert", "tls_key"),
        *("connect_timeout_s", "patience_s"),
    },
)


def _open_remote(scheme: str) -> "Callable[..., Store[Any]]":
    def open_store(location: str, **options: Any) -> "Store[Any]":
        with needing_module("httpx2", "remote"):
            from strandline.stores.remote import RemoteStore  # noqa: PLC0415 - An extra.
        for name, value in _remote_defaults(scheme).items():
            options.setdefault(name, value)
        return RemoteStore(f"{scheme}:{location}", **options)

    return open_store


def _examine_remote(scheme: str) -> "Callable[[str], Iterable[Examined]]":
    def examine_server(location: str) -> "Iterable[Examined]":
        with needing_module("httpx2", "remote"):
            from strandline.stores.remote import examining  # noqa: PLC0415 - An extra.
        return examining.examine(f"{scheme}:{location}", **_remote_defaults(scheme))

    return examine_server


def _remote_defaults(scheme: str) -> dict[str, str | None]:
    # A CA in the environment applies to servers with TLS only.
    ca = os.environ.get(TLS_CA_VARIABLE) if scheme == "https" else None
    return {"token": os.environ.get(TOKEN_VARIABLE), "tls_ca": ca}


def _remote(scheme: str) -> StoreKind:
    return StoreKind(
        _open_remote(scheme),
        f"{scheme}://HOST:PORT",
        frozenset({"token", "tls_ca", "patience_s", "request_timeout_s"}),
        locate=lambda location: location,
        extra="remote",
        reads_tier=False,
        examine=_examine_remote(scheme),
    )


_KINDS: Mapping[str, StoreKind] = {
    "memory": StoreKind(_open_memory, "memory:", describe=_describe_memory),
    "file": StoreKind(
        FileStore,
        "file:PATH",
        frozenset({"exclusive", "take_over", "compression"}),
        locate=real_path,
        is_at=_is_directory,
        staging=lambda path: os.path.join(path, "staging"),
        copy=copy_file_log,
    ),
    "sqlite": StoreKind(
        SqliteStore,
        "sqlite:PATH",
        describe=describe_sqlite,
        locate=real_parent,
        is_at=lambda path: not _is_directory(path),
        staging=lambda path: f"{path}-staging",
        copy=copy_sqlite_log,
    ),
    "kafka": _KAFKA,
    "nats": _NATS,
    "postgresql": _POSTGRES,
    "postgres": _POSTGRES,
    "http": _remote("http"),
    "https": _remote("https"),
}


def _parse(url: object) -> tuple[StoreKind, str]:
    chosen = default_url() if url is None else url
    if isinstance(chosen, str):
        chosen = check_text(chosen, "URL")
        scheme, colon, rest = chosen.partition(":")
        if colon and scheme not in SCHEMES:
            return _kind(scheme), rest
    scheme, location = parse_log_url(chosen)
    return _KINDS[scheme], location


def _kind(scheme: str) -> StoreKind:
    if scheme in _KINDS:
        return _KINDS[scheme]
    brought = {point.name: point for point in entry_points(group=STORES_GROUP)}
    if scheme in brought:
        kind: StoreKind = brought[scheme].load()
        return kind
    forms = dict.fromkeys(
        (*(each.form for each in _KINDS.values()), *(f"{name}:…" for name in brought))
    )
    raise InvalidError(f"there is no such kind of log, use {', '.join(forms)}", scheme=scheme)


def _not_blank(variable: str, value: str) -> str:
    if not value.strip():
        raise InvalidError(f"{variable} is blank, unset it or give it a value", value=value)
    return value
