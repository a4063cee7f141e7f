"""How a file log writes: the choices of the code that opened it."""

from dataclasses import dataclass

from strandline.stores.files.columnar import Compression


@dataclass(frozen=True, slots=True)
class WritingSettings:
    """How a log writes."""

    is_exclusive: bool = False
    takes_over: bool = False
    compression: Compression | None = None
    segment_bytes: int = 64 * 1024 * 1024
    lock_timeout_s: float = 10.0
    #: Whether the core may map tails as shared memory.
    maps_tails: bool = False
