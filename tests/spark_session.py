"""The Spark session that all tests of a run share.

It starts in about three seconds instead of six: a class archive that the first run
leaves in .cache, the quick compiler, the small garbage collector.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pyspark
from pyspark.sql import SparkSession

from strandline.spark import find_java, local_session

ROOT = Path(__file__).parent.parent
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable -Xlog:all=error:stderr"


@contextmanager
def shared_session() -> Iterator[SparkSession]:
    """Give a session, and end its Java when nobody needs it any more."""
    scratch = ROOT / ".tmp"
    scratch.mkdir(exist_ok=True)
    with TemporaryDirectory(prefix="spark-", dir=scratch) as folder:
        archive = ClassArchive(folder)
        session = local_session(folder, java_options=f"{QUICK_START} {archive.java_option}")
        session.sparkContext.setLogLevel("ERROR")
        gateway = session.sparkContext._gateway  # noqa: SLF001 # Nothing else ends the Java.
        assert gateway is not None
        try:
            yield session
        finally:
            session.stop()
            gateway.shutdown()
            gateway.proc.stdin.close()
            gateway.proc.wait()
            archive.keep()


class ClassArchive:
    """Spark's classes as Java has them in memory, for the Java and the PySpark in use."""

    def __init__(self, folder: str) -> None:
        java = find_java()
        name = f"classes-{pyspark.__version__}-{java.origin}-{java.major}.jsa"
        self._kept = ROOT / ".cache" / "spark" / name
        self._new = Path(folder) / name

    @property
    def java_option(self) -> str:
        if self._kept.exists():
            return f"-XX:SharedArchiveFile={self._kept}"
        return f"-XX:ArchiveClassesAtExit={self._new}"

    def keep(self) -> None:
        """Keep what the Java left behind at its end, if it left anything."""
        if self._new.exists():
            self._kept.parent.mkdir(parents=True, exist_ok=True)
            aside = self._kept.with_suffix(f".{os.getpid()}")
            shutil.move(self._new, aside)
            aside.replace(self._kept)
