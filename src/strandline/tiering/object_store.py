"""Object stores: the interface that the tier needs, implemented with obstore."""

import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Final, Protocol
from urllib.parse import quote, unquote, urlsplit

from strandline.io import Io, SystemIo
from strandline.values import InvalidError, UnavailableError
from strandline.values.extras import needing
from strandline.values.names import check_text

_SCHEMES: Final = "file:///, memory:///, s3://, gs://, az:// or abfss://"

#: Where obstore looks last, on machines of AWS, Google and Azure: nothing else was given.
_CREDENTIALS_OF_MACHINE: Final = re.compile(
    r"/latest/(api/token|meta-data)|/computeMetadata/|/metadata/identity/"
)
_NO_CREDENTIALS: Final = (
    "there are no credentials for this object store: set them in the environment, for s3 as"
    " AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
)


class ObjectStore(Protocol):
    """Named objects, each written as a whole. Any call may raise UnavailableError: try again."""

    @property
    def url(self) -> str:
        """Its URL, which is stored in the log, so without credentials."""

    def put(self, name: str, content: bytes) -> str | None:
        """Write an object, replacing one of the same name. Durable when it returns.

        Returns what the store reports about it, for instance an e-tag.
        """

    def get(self, name: str) -> bytes | None:
        """Return an object; None if there is none."""

    def get_end(self, name: str, start: int) -> bytes | None:
        """Return the bytes of an object from `start` on; None if there is no object."""

    def delete(self, name: str) -> None:
        """Remove an object; does nothing if there is none."""

    def list(self, prefix: str) -> Sequence[str]:
        """Return the names under a folder, which may be out of date."""


class ObstoreStore:
    """Implements ObjectStore for a local directory, memory, or anything that obstore supports.

    Credentials, regions and endpoints come from the environment, as obstore reads them.
    """

    def __init__(self, url: str, *, io: Io | None = None) -> None:
        self._url = url
        self._obstore = _obstore()
        self._io = io or SystemIo()
        scheme, path = _parsed(url)
        self._directory = path if scheme == "file" else None
        try:
            self._store = self._opened(scheme)
        except (self._obstore.exceptions.BaseError, ValueError, OSError) as error:
            reason = _reason(error)
            if "Unable to recognise URL" in reason:
                reason = f"a store's URL begins with {_SCHEMES}, and names a bucket or host"
            raise InvalidError("this store cannot be opened", url=url, reason=reason) from error

    def _opened(self, scheme: str) -> Any:
        stores = self._obstore.store
        if scheme == "memory":
            return stores.MemoryStore()
        if self._directory is not None:
            return stores.LocalStore(self._directory, mkdir=True)
        return stores.from_url(self._url)

    @property
    def url(self) -> str:
        return self._url

    def put(self, name: str, content: bytes) -> str | None:
        with _translated(self._obstore, self._url, name):
            answer = self._obstore.put(self._store, name, content)
            if self._directory is not None:
                self._make_durable(self._directory, name)
        tag = answer.get("e_tag")
        return None if tag is None else str(tag)

    def put_new(self, name: str, content: bytes) -> bool:
        """Write an object unless the name exists; return whether it was written. Durable if so."""
        with _translated(self._obstore, self._url, name):
            try:
                self._obstore.put(self._store, name, content, mode="create")
            except self._obstore.exceptions.AlreadyExistsError:
                return False
            if self._directory is not None:
                self._make_durable(self._directory, name)
        return True

    def get(self, name: str) -> bytes | None:
        try:
            with _translated(self._obstore, self._url, name):
                return bytes(self._obstore.get(self._store, name).bytes())
        except _NoObjectError:
            return None

    def get_end(self, name: str, start: int) -> bytes | None:
        try:
            with _translated(self._obstore, self._url, name):
                answer = self._obstore.get(self._store, name, options={"range": {"offset": start}})
                return bytes(answer.bytes())
        except _NoObjectError:
            return None

    def delete(self, name: str) -> None:
        try:
            with _translated(self._obstore, self._url, name):
                self._obstore.delete(self._store, name)
        except _NoObjectError:
            pass

    def list(self, prefix: str) -> Sequence[str]:
        with _translated(self._obstore, self._url, prefix):
            pages = self._obstore.list(self._store, prefix=prefix)
            return sorted(str(each["path"]) for page in pages for each in page)

    def _make_durable(self, directory: str, name: str) -> None:
        """Sync a file and the folders of its path, because obstore does not."""
        try:
            fd = self._io.open(f"{directory}/{name}", "read")
        except FileNotFoundError:
            return  # Another process has deleted it meanwhile.
        try:
            self._io.sync(fd)
        finally:
            self._io.close(fd)
        folder = name
        while folder:
            folder = folder.rpartition("/")[0]
            self._io.sync_directory(f"{directory}/{folder}")


class _NoObjectError(Exception):
    pass


_stores: dict[str, ObstoreStore] = {}
_stores_lock = threading.Lock()


def is_in_memory(store: ObjectStore) -> bool:
    """Whether only this process can access its objects."""
    return _parsed(store.url)[0] == "memory"


def canonical_url(url: str) -> str:
    """Return the same URL for each spelling of a store's: a slash at its end, or escapes.

    `..` stays, because what it means depends on symbolic links.
    """
    scheme, path = _parsed(url)
    if scheme == "memory":
        return url
    folders = [each for each in path.split("/") if each and (each != "." or scheme != "file")]
    return f"{scheme}://{urlsplit(url).netloc}/{quote('/'.join(folders))}"


def open_store(url: str) -> ObjectStore:
    """Return the store at `url`; a process has one object for each URL.

    `file:///path`, `memory:///name` (in the memory of the process) or a URL that obstore
    supports, such as `s3://bucket/prefix`. InvalidError for any other URL, and without the
    extra `tiering`.
    """
    url = check_text(url, "url")
    with _stores_lock:
        found = _stores.get(url)
        if found is None:
            found = _stores[url] = ObstoreStore(url)
        return found


def store_of(store: str | ObjectStore) -> ObjectStore:
    """Return the store, or the one at its URL; InvalidError for anything else.

    InvalidError also for a URL with options: no store reads them, and the log would keep them.
    """
    if isinstance(store, str | ObstoreStore):
        # Not where a copy is opened: a log may have such a URL from an earlier version.
        _check_whole(store if isinstance(store, str) else store.url)
    if isinstance(store, str):
        return open_store(store)
    if all(callable(getattr(store, name, None)) for name in ("put", "get", "list", "delete")):
        return store
    raise InvalidError(
        "store is a URL or an ObjectStore, write path.absolute().as_uri() for a path",
        type=type(store).__name__,
    )


def _obstore() -> ModuleType:
    with needing("obstore", "tiering"):
        import obstore  # noqa: PLC0415 - An extra, which may not be installed.
        import obstore.store  # noqa: PLC0415 - As above.
    return obstore


def _parsed(url: str) -> tuple[str, str]:
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise InvalidError(
            "this is not a URL of a store", url=url, reason=_reason(error)
        ) from error
    if not parts.scheme:
        raise InvalidError("a store's URL is like file:///path or s3://bucket/prefix", url=url)
    # In abfss://container@account.dfs.core.windows.net/path, that is the container.
    if parts.password or (parts.username and parts.scheme not in ("abfs", "abfss")):
        raise InvalidError("a store's URL is stored in the log, leave credentials out of it")
    if parts.scheme == "file" and (parts.netloc or not parts.path.startswith("/")):
        raise InvalidError("a directory's URL is file:// and an absolute path", url=url)
    return parts.scheme, unquote(parts.path)


def _check_whole(url: str) -> None:
    if "?" in url or "#" in url:
        raise InvalidError(
            "a store's URL has no options: its region, endpoint and the like are set in the"
            " environment (AWS_REGION, AWS_ENDPOINT_URL); in a path ? is %3F and # is %23",
            url=url,
        )


def _reason(error: Exception) -> str:
    """Return the first line of an error: those of obstore go on with Rust's debug output."""
    return next(iter(str(error).splitlines()), type(error).__name__)


@contextmanager
def _translated(obstore: ModuleType, url: str, name: str | None = None) -> Iterator[None]:
    errors = obstore.exceptions
    try:
        yield
    except (errors.NotFoundError, FileNotFoundError) as error:
        raise _NoObjectError from error
    except (ValueError, errors.UnknownConfigurationKeyError, errors.InvalidPathError) as error:
        raise InvalidError(
            "the store cannot be used like this", url=url, reason=_reason(error)
        ) from error
    except (errors.BaseError, OSError) as error:
        reason = _reason(error)
        has_none = _CREDENTIALS_OF_MACHINE.search(reason) is not None
        raise UnavailableError(
            _NO_CREDENTIALS
            if has_none
            else "the object store did not answer as it should, check its URL or try again",
            url=url,
            name=name,
            reason=reason,
        ) from error
