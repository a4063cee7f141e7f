"""How a file log writes: what its maker chose."""

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
    #: Whether the core may have tails as shared memory.
    maps_tails: bool = False
