"""Moves the end of a tail file on, once for each line on standard input, and reports it."""

import os
import sys

fd = os.open(sys.argv[1], os.O_RDWR)
for line in sys.stdin:
    os.pwrite(fd, int(line).to_bytes(8, "little"), 0)
    print(line, end="", flush=True)  # noqa: T201 - This is how it answers.
