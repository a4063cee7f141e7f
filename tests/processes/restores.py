"""A log that is replaced by an older copy of itself while processes write to it."""

import copy
import random
import shutil
import signal
import tempfile
from pathlib import Path

from tests.processes import report as reports
from tests.processes.fork_server import Child, ForkServer
from tests.processes.ledger import Ledger, Value
from tests.processes.report import Message
from tests.processes.stores import copy_of, url_in

#: More than any comes to before it is killed.
NUMBERS_EACH = 100_000
WRITERS = 2


class Restore:
    """Writers on a log whose directory is exchanged while they are stopped."""

    def __init__(self, server: ForkServer, folder: Path, seed: int) -> None:
        self.server = server
        self.folder = folder
        self.seed = seed
        self.url = url_in("file", folder / "log")
        self.ledger = Ledger()
        self._rng = random.Random(seed)
        #: Appends that were under way when the log was replaced: they came before it.
        self._overtaken: set[Value] = set()

    def run(self) -> None:
        """Copy, let them continue, restore, let them continue, and see what is there."""
        self.server.run("workloads:create", url=self.url)
        writers = [self._start(number) for number in range(WRITERS)]
        try:
            self._let_them_write(writers)
            older = self._copy()
            self._let_them_write(writers)
            position = self._position(writers)
            self._restore(older)
            self._let_them_write(writers)
            self._resume(writers)
        finally:
            for writer in writers:
                for message in writer.kill():
                    self._note(message)
        told = self.server.run("concurrent_writers:resolve", url=self.url, position=position)
        assert told[-1][1] == "DivergedError", f"seed={self.seed}: {told}"
        for message in self.server.run("workloads:read_back", url=self.url):
            self._note(message)

    def _start(self, number: int) -> Child:
        return self.server.start(
            "concurrent_writers:contend",
            url=self.url,
            producer=f"w{number}",
            following=0,
            end=NUMBERS_EACH,
            seed=self._rng.getrandbits(32),
            retry=None,
            options={},
        )

    def _let_them_write(self, writers: list[Child]) -> None:
        self._resume(writers)
        for writer in writers:
            wanted = self._rng.randrange(10, 30)
            for message in writer.messages():
                self._note(message)
                wanted -= message[0] == "ack"
                if wanted <= 0:
                    break
        self._stop(writers)

    def _stop(self, writers: list[Child]) -> None:
        for writer in writers:
            writer.signal(signal.SIGSTOP)
            writer.wait_until_stopped()
            while messages := writer.ready():
                for message in messages:
                    self._note(message)

    def _resume(self, writers: list[Child]) -> None:
        for writer in writers:
            writer.signal(signal.SIGCONT)

    def _copy(self) -> Ledger:
        copy_of(self.url, self.folder / "copy")
        return copy.deepcopy(self.ledger)

    def _position(self, writers: list[Child]) -> str:
        """Store a position beyond the copy's end, taken while the writers are alive."""
        self._resume(writers)
        told = self.server.run("concurrent_writers:take_position", url=self.url)
        self._stop(writers)
        return str(told[-1][1])

    def _restore(self, older: Ledger) -> None:
        shutil.move(self.folder / "log", self.folder / "gone")
        shutil.move(self.folder / "copy", self.folder / "log")
        self.ledger.roll_back_to(older)
        self._overtaken = {
            value
            for value in self.ledger.offers
            if value not in self.ledger.places and value not in self.ledger.refused
        }

    def _note(self, message: Message) -> None:
        match message:
            case ["contents", *_]:
                reports.check(self.ledger, message, f"seed={self.seed}")
            case ["crash", text]:
                raise AssertionError(f"seed={self.seed}: {text}")
            case ["ack", producer, first, _] if Value(producer, first) in self._overtaken:
                pass
            case _:
                reports.note(self.ledger, message)


def run(server: ForkServer, seed: int) -> None:
    """Restore a copy once, in the middle of everything."""
    with tempfile.TemporaryDirectory() as folder:
        Restore(server, Path(folder), seed).run()
