"""Tools for tests of a log, or of a program that uses one.

Promises: small real implementations, never mocks; the same seed and the same calls
lead to the same outcome; no test needs to sleep. pytest finds the fixtures of
`pytest_plugin` by itself.

Not for use in production.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from strandline.testing.fake_clock import FakeClock
    from strandline.testing.faulty_broker import FaultyBroker
    from strandline.testing.faulty_io import Fault, FaultyIo, Operation, OperationKind

__all__ = ["FakeClock", "Fault", "FaultyBroker", "FaultyIo", "Operation", "OperationKind"]

# Hidden from type checkers, which would otherwise accept any name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        # Every run of pytest imports this package because of the plugin.
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        homes = {"FakeClock": "fake_clock", "FaultyBroker": "faulty_broker"}
        room = homes.get(name, "faulty_io")
        value: object = getattr(import_module(f"{__name__}.{room}"), name)
        globals()[name] = value
        return value
