"""`python -m benchmarks`, which `make bench` runs."""

import os
import sys

from benchmarks.catalogue import ENTRIES
from benchmarks.run import run

if sys.argv[1:]:
    sys.exit("benchmarks take no arguments, run: make bench ONLY=append BARS=strict")
sys.exit(run(ENTRIES, os.environ))
