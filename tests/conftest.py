"""Settings that every test shares."""

from pathlib import Path

from hypothesis import settings
from hypothesis.configuration import set_hypothesis_home_dir
from hypothesis.database import DirectoryBasedExampleDatabase

HYPOTHESIS_HOME = Path(__file__).parent.parent / ".cache" / "hypothesis"

set_hypothesis_home_dir(HYPOTHESIS_HOME)

# Hypothesis would repeat the same examples for ever where CI is set, and its time
# limit per example would turn a busy machine into a failure.
settings.register_profile(
    "strandline",
    database=DirectoryBasedExampleDatabase(HYPOTHESIS_HOME / "examples"),
    deadline=None,
    derandomize=False,
    print_blob=True,
)
settings.load_profile("strandline")
