"""Every public callable with every hostile value, a callable and a kind of log for each seed."""

from tests.hostile import commands
from tests.hostile.attack import attack, cases
from tests.hostile.good_calls import CALLS
from tests.processes.stores import SCHEMES

SEEDS = len(CALLS) * (1 + len(SCHEMES))
_SCHEMES = ("memory", *SCHEMES)


COMMANDS_PER_SEED = 50
COMMAND_SEEDS = -(-len(commands.cases()) // COMMANDS_PER_SEED)


def attack_commands(seed: int) -> None:
    """Pass COMMANDS_PER_SEED hostile arguments to commands."""
    found = commands.attack(commands.sample(seed, COMMANDS_PER_SEED))
    assert not found, "\n".join(found)


def attack_all(seed: int) -> None:
    """Call one public callable with every hostile value."""
    name = sorted(CALLS)[seed % len(CALLS)]
    scheme = _SCHEMES[seed // len(CALLS) % len(_SCHEMES)]
    found = attack([case for case in cases() if case.callable == name], scheme)
    assert not found, "\n".join(found)
