"""The byte limit of one read."""

from strandline.stores.files.page import Page
from strandline.values.arguments import INT64_MAX


class ByteLimit:
    """The rest of a byte limit. The first record of a read is always returned."""

    __slots__ = ("_is_full", "_is_limited", "is_first", "left")

    def __init__(self, bytes_max: int | None) -> None:
        self._is_limited = bytes_max is not None
        self.left: int = INT64_MAX if bytes_max is None else bytes_max
        #: Whether no record was returned yet.
        self.is_first: bool = True
        self._is_full = bytes_max == 0

    def is_full(self) -> bool:
        """Whether no other record may be returned."""
        return self._is_full

    def take(self, left: int, *, is_full: bool) -> None:
        """Set what is left of the limit after some records."""
        self.is_first = self.is_first and left == self.left
        self.left, self._is_full = left, is_full or left < 0

    def cut(self, page: Page) -> Page:
        """Return as much of a page as is within the limit."""
        if not self._is_limited or self._is_full:
            return page
        left = self.left
        for offset, size in zip(page.offsets, page.sizes(), strict=True):
            if size > left and not self.is_first:
                self.take(left, is_full=True)
                return page.cut(page.offsets.start, offset)
            left -= size
            self.is_first = False
        self.take(left, is_full=False)
        return page
