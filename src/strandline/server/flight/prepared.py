"""Prepared statements. A handle has the whole statement, so the server stores none."""

import base64
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa

from strandline.values import InvalidError

_PARAMETERS_MAX: Final = 256 * 1024


class Prepared(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A statement, and the parameters that are bound to it."""

    sql: str
    parameters: str = ""
    """One row of an Arrow stream, in base64."""

    def handle(self) -> bytes:
        """Return the handle that a client sends to run the statement."""
        return msgspec.json.encode(self)

    def values(self) -> list[object]:
        """Return the bound parameters, in their order."""
        if not self.parameters:
            return []
        try:
            packed = base64.b64decode(self.parameters, validate=True)
            table = pa.ipc.open_stream(packed).read_all()
            table.validate(full=True)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise _no_handle(str(error)) from None
        return [column[0].as_py() for column in table.columns]


def prepared_of(handle: bytes) -> Prepared:
    """Return the statement of a handle; InvalidError for anything else."""
    try:
        return msgspec.json.decode(handle, type=Prepared)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise _no_handle(str(error)) from None


def bound(prepared: Prepared, batches: Sequence[pa.RecordBatch]) -> Prepared:
    """Return the statement with the one row of these batches as its parameters."""
    rows = sum(each.num_rows for each in batches)
    if rows != 1:
        raise InvalidError("a statement is run with one row of parameters", rows=rows)
    (batch,) = (each for each in batches if each.num_rows)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    packed: Any = sink.getvalue()
    if packed.size > _PARAMETERS_MAX:
        raise InvalidError(
            "these parameters are too large", bytes=packed.size, bytes_max=_PARAMETERS_MAX
        )
    return msgspec.structs.replace(
        prepared, parameters=base64.b64encode(packed.to_pybytes()).decode()
    )


def _no_handle(reason: str) -> InvalidError:
    return InvalidError("this is no handle of a statement, prepare it again", reason=reason)
