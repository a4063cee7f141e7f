"""What tests of a log, or of a program that uses one, are made of.

Promises: small real implementations, never mocks; the same seed and the same calls
give the same outcome; no test needs to sleep.

Does not make anything safe to run in production.
"""

from strandline.testing.fake_clock import FakeClock
from strandline.testing.faulty_io import Fault, FaultyIo, Operation, OperationKind

__all__ = ["FakeClock", "Fault", "FaultyIo", "Operation", "OperationKind"]
