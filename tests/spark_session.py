"""The Spark session that all tests of a run share, and how any of theirs starts quickly.

In about three seconds instead of six: a class archive that the first run leaves in
.cache, the quick compiler, the small garbage collector.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pyspark
from pyspark.sql import SparkSession

from strandline.spark import find_java, local_session
from tests.spark_pythons import environment, forked_pythons

ROOT = Path(__file__).parent.parent
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable -Xlog:all=error:stderr"
# Of every Java that runs a driver.
_OPTIONS = "SPARK_SUBMIT_OPTS"


@contextmanager
def quick_spark() -> Iterator[None]:
    """Let each Spark that starts meanwhile, here or in children, start quickly."""
    with (
        TemporaryDirectory(prefix="pythons-", dir=scratch()) as folder,
        forked_pythons(folder),
        environment({_OPTIONS: quick_java()}),
    ):
        yield


@contextmanager
def shared_session() -> Iterator[SparkSession]:
    """Give a session, and end its Java when no test needs it any more."""
    archive = ClassArchive()
    with TemporaryDirectory(prefix="spark-", dir=scratch()) as folder:
        if archive.is_there():
            with _session(folder, quick_java()) as session:
                yield session
        else:
            with (
                archive.made(folder) as option,
                _session(folder, f"{QUICK_START} {option}") as session,
            ):
                yield session


@contextmanager
def _session(folder: str, java_options: str) -> Iterator[SparkSession]:
    # Its Java begins where it stays: the folder of a page is removed with the page.
    with chdir(folder):
        session = local_session(folder, java_options=java_options)
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


def scratch() -> Path:
    """Return where the sessions of tests have their folders."""
    folder = ROOT / ".tmp"
    folder.mkdir(exist_ok=True)
    return folder


class ClassArchive:
    """Spark's classes as Java has them in memory, for the Java and the PySpark in use."""

    def __init__(self) -> None:
        java = find_java()
        # Java refuses an archive that is not of these very files.
        installed = int(Path(pyspark.__file__).with_name("jars").stat().st_mtime)
        name = f"classes-{pyspark.__version__}-{java.origin}-{java.major}-{installed}.jsa"
        self._kept = ROOT / ".cache" / "spark" / name

    def is_there(self) -> bool:
        return self._kept.exists()

    def use(self) -> str:
        """Return the option of a Java that takes its classes from here."""
        return f"-XX:SharedArchiveFile={self._kept}"

    @contextmanager
    def made(self, folder: str) -> Iterator[str]:
        """Give the option of a Java that leaves an archive at its end; then keep that."""
        new = Path(folder) / self._kept.name
        yield f"-XX:ArchiveClassesAtExit={new}"
        if new.exists():
            self._kept.parent.mkdir(parents=True, exist_ok=True)
            aside = self._kept.with_suffix(f".{os.getpid()}")
            shutil.move(new, aside)
            aside.replace(self._kept)


def quick_java() -> str:
    """Return the options of a Java that starts quickly, and may be killed."""
    archive = ClassArchive()
    return f"{QUICK_START} {archive.use()}" if archive.is_there() else QUICK_START
