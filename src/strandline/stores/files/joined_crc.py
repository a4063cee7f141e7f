"""The CRC-32C of two pieces from those of each, without the bytes of either."""

from functools import cache
from typing import Final

_POLYNOMIAL: Final = 0x82F63B78
#: x to the power 0, in the order of bits in which a checksum has its own.
_ONE: Final = 1 << 31


def joined_crc(first: int, second: int, length: int) -> int:
    """Return the checksum of two pieces; the second is `length` bytes long.

    A checksum is a remainder of polynomials, so that what follows multiplies it by a
    power of x.
    """
    return _times(_bytes_on(length), first) ^ second


@cache
def _bytes_on(length: int) -> int:
    """Return x to the power of so many bytes' bits."""
    found, doublings = _ONE, 3
    while length:
        if length & 1:
            found = _times(_squared(doublings), found)
        length >>= 1
        doublings += 1
    return found


@cache
def _squared(times: int) -> int:
    """Return x, squared so many times."""
    if not times:
        return _ONE >> 1
    before = _squared(times - 1)
    return _times(before, before)


def _times(left: int, right: int) -> int:
    """Return the product of two polynomials, modulo that of the checksum."""
    product, bit = 0, _ONE
    while bit:
        if left & bit:
            product ^= right
        right = right >> 1 ^ _POLYNOMIAL if right & 1 else right >> 1
        bit >>= 1
    return product
