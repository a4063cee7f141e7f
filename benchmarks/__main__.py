"""`python -m benchmarks`, which `make bench` runs."""

import os
import sys

from benchmarks.catalogue import ENTRIES
from benchmarks.run import run

sys.exit(run(ENTRIES, os.environ))
