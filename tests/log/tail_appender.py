"""Writes each line of standard input, a number, as the end in a tail file, and repeats it."""

import os
import sys

fd = os.open(sys.argv[1], os.O_RDWR)
for line in sys.stdin:
    os.pwrite(fd, int(line).to_bytes(8, "little"), 0)
    print(line, end="", flush=True)  # noqa: T201 - This is how it reports.
