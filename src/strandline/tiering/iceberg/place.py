"""Where the Iceberg table of a topic is: its catalogue, its name there, and the objects' URLs."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import msgspec

from strandline.tiering.object_store import ObjectStore, canonical_url
from strandline.tiering.routing import topic_folder
from strandline.values import (
    CorruptError,
    InvalidError,
    StrandlineError,
    Topic,
    UnavailableError,
)
from strandline.values.extras import needing
from strandline.values.names import check_text

#: What pyiceberg and the readers of tables open themselves.
_SCHEMES: Final = ("file", "s3", "gs", "abfs", "abfss")
_NAME: Final = "_iceberg.json"


class TableName(msgspec.Struct, frozen=True):
    """A table, and the catalogue of pyiceberg's configuration that has it."""

    catalogue: str
    table: str

    def __str__(self) -> str:
        return f"{self.catalogue}.{self.table}"


def require_pyiceberg() -> ModuleType:
    """Import pyiceberg; if it is missing, InvalidError with the extra that installs it."""
    with needing("pyiceberg", "iceberg"):
        import pyiceberg.catalog  # noqa: PLC0415 - An extra.
        import pyiceberg.exceptions  # noqa: PLC0415 - As above.
        import pyiceberg.utils.config  # noqa: PLC0415 - As above.
    return pyiceberg


def check_name(name: str) -> TableName:
    """Return the parts of a name like `lake.events.orders`."""
    catalogue, _, table = check_text(name, "iceberg").partition(".")
    if not all([catalogue, *table.split(".")]) or "." not in table:
        raise InvalidError(
            "an Iceberg table is named by catalogue, namespace and table, like lake.events.orders",
            iceberg=name,
        )
    return TableName(catalogue, table)


def recorded_name(store: ObjectStore, topic: Topic) -> TableName | None:
    """Return which table the topic's objects are, as recorded beside them; None if they are not."""
    content = store.get(_recorded_at(topic))
    try:
        return None if content is None else msgspec.json.decode(content, type=TableName)
    except msgspec.MsgspecError as error:
        raise CorruptError(
            "this record of an Iceberg table cannot be read; delete it, and tier with iceberg",
            file=_recorded_at(topic),
            position=0,
            reason=str(error),
        ) from error


def record_name(store: ObjectStore, topic: Topic, name: TableName) -> None:
    """Record which table the topic's objects are, for processes that delete some of them."""
    store.put(_recorded_at(topic), msgspec.json.encode(name))


def forget_name(store: ObjectStore, topic: Topic) -> None:
    """Remove the record of a dropped topic."""
    store.delete(_recorded_at(topic))


def _recorded_at(topic: Topic) -> str:
    return f"{topic_folder(topic)}/{_NAME}"


def base_of(store: ObjectStore) -> str:
    """Return the prefix of objects' names in the table; InvalidError for other stores."""
    parts = urlsplit(canonical_url(store.url))
    if parts.scheme not in _SCHEMES:
        raise InvalidError(
            "an Iceberg table needs objects that other programs can open",
            store=store.url,
            schemes=", ".join(_SCHEMES),
        )
    # pyiceberg takes a path as it is.
    url = f"{parts.scheme}://{parts.netloc}{unquote(parts.path)}"
    if "?" in url or "#" in url:
        raise InvalidError(
            "readers of Iceberg tables cannot open a path with ? or #, choose another directory",
            store=store.url,
        )
    return f"{url.rstrip('/')}/"


@contextlib.contextmanager
def opened_catalogue(name: TableName) -> Iterator[Any]:
    """Open the catalogue as pyiceberg's configuration says.

    InvalidError if it is not configured. UnavailableError for what it raises meanwhile, except
    for pyiceberg's own errors.
    """
    pyiceberg = require_pyiceberg()
    try:
        # As it is now: pyiceberg itself reads it once, when it is imported.
        configured = pyiceberg.utils.config.Config().get_catalog_config(name.catalogue) or {}
        catalogue = _loader(configured)(name.catalogue, **configured)
    except (ValueError, ImportError, pyiceberg.exceptions.NotInstalledError) as error:
        raise InvalidError(
            "this catalogue of Iceberg tables cannot be opened; configure it in .pyiceberg.yaml "
            f"or with PYICEBERG_CATALOG__{name.catalogue.upper()}__URI and its like",
            catalogue=name.catalogue,
            reason=_reason(error),
        ) from error
    except Exception as error:  # Of a database or server, which may be of any kind.
        raise _unavailable(name, error) from error
    with contextlib.closing(catalogue):
        try:
            yield catalogue
        except (StrandlineError, AssertionError, MemoryError):
            raise
        except Exception as error:  # As above.
            raise _unavailable(name, error) from error


def _loader(configured: Mapping[str, Any]) -> Callable[..., Any]:
    """Return what makes the catalogue: pyiceberg, except for a REST catalogue of its own."""
    is_http = str(configured.get("uri", "")).startswith("http")
    kind = configured.get("type", "" if "py-catalog-impl" in configured else "rest")
    if is_http and str(kind).lower() == "rest":
        from strandline.tiering.iceberg.rest_catalogue import (  # noqa: PLC0415 - An extra.
            TimedRestCatalog,
        )

        return TimedRestCatalog
    loader: Callable[..., Any] = require_pyiceberg().catalog.load_catalog
    return loader


def _unavailable(name: TableName, error: Exception) -> UnavailableError:
    return UnavailableError(
        "the catalogue of Iceberg tables did not answer as it should, check its configuration or "
        "try again",
        iceberg=str(name),
        reason=_reason(error),
    )


def _reason(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
