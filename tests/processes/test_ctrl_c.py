"""One Ctrl-C ends a program that appends."""

import pytest

from tests.processes import ctrl_c
from tests.processes.stores import SCHEMES

PROGRAMS = 10


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES)
def test_one_interrupt_ends_a_program_that_appends(scheme: str) -> None:
    ctrl_c.run(scheme, seed=0, programs=PROGRAMS)
