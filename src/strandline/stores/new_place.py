"""Creates something that takes long to make at its path, atomically."""

import contextlib
import os
from collections.abc import Callable, Iterator

from strandline.clock import Clock
from strandline.io import Io, real_parent
from strandline.stores.file_errors import unavailable
from strandline.values import InvalidError


@contextlib.contextmanager
def new_place(io: Io, clock: Clock, target: str, remove: Callable[[str], None]) -> Iterator[str]:
    """Yield a path beside `target`, and move what the block made there to `target`, durably.

    InvalidError if `target` exists already. If the block raises, `remove` removes what it
    made; OSError becomes UnavailableError.
    """
    path = real_parent(target)
    try:
        if io.exists(path):
            raise InvalidError("there is something here already, choose a new place", path=path)
        made = f"{path}.{clock.new_id()}.partial"
        try:
            yield made
            io.replace(made, path)
            made = path
            io.sync_directory(os.path.dirname(path))
        except BaseException:
            remove(made)
            raise
    except OSError as error:
        raise unavailable(error, path) from error
