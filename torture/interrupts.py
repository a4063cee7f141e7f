"""Interrupts of whole public calls, and of whole programs by a signal."""

from tests.model.interrupted_calls import PAIRS, interrupt
from tests.processes import ctrl_c
from tests.processes.stores import SCHEMES

#: How many seeds it takes to interrupt at every point of every call.
STRIDE = 16
INTERRUPTS = len(PAIRS) * STRIDE
PROGRAMS_PER_SEED = 100
PROGRAMS = 4_000 // PROGRAMS_PER_SEED


def interrupt_calls(seed: int) -> None:
    """Interrupt one call at every STRIDE-th point; the seed selects the first one."""
    scheme, call = PAIRS[seed % len(PAIRS)]
    first = seed // len(PAIRS) % STRIDE
    interrupt(scheme, call, lambda points: points[first::STRIDE])


def interrupt_programs(seed: int) -> None:
    """Send SIGINT to programs that append."""
    ctrl_c.run(SCHEMES[seed % len(SCHEMES)], seed, PROGRAMS_PER_SEED)
