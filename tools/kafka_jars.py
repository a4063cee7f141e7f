"""Downloads the jars of a Kafka broker, and of Spark's connector, into .cache/kafka, once.

They are for tests and benchmarks. Maven downloads them, as it is configured on this machine, and
they are used only if each has the digest in kafka_jars.sha256 or kafka_connector.sha256. `python -m
tools.kafka_jars` prints the folder of the broker's, and with `connector` that of the other.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
CACHE: Final = ROOT / ".cache" / "kafka"
_FETCH_S: Final = 300
_POM: Final = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>strandline</groupId><artifactId>broker</artifactId><version>1</version>
  <dependencies>{}</dependencies>
</project>
"""
_DEPENDENCY: Final = """<dependency>
    <groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>{}
  </dependency>"""
#: The other dependencies are part of PySpark.
_ALONE: Final = """
    <exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"""


class NoJarsError(Exception):
    """Why there are no jars."""


@dataclass(frozen=True, slots=True)
class _Jars:
    """Jars that are fetched together."""

    name: str
    digests: str
    artifacts: tuple[tuple[str, str, str], ...]
    is_alone: bool = False

    @property
    def folder(self) -> Path:
        return CACHE / self.name

    def pom(self) -> str:
        more = _ALONE if self.is_alone else ""
        return _POM.format("".join(_DEPENDENCY.format(*each, more) for each in self.artifacts))


VERSION: Final = "4.3.1"
_BROKER: Final = _Jars(
    f"libs-{VERSION}", "kafka_jars.sha256", (("org.apache.kafka", "kafka_2.13", VERSION),)
)
_CONNECTOR: Final = _Jars(
    "spark-4.2.0",
    "kafka_connector.sha256",
    (
        ("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0"),
        ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
        ("org.apache.kafka", "kafka-clients", "3.9.2"),
        ("org.apache.commons", "commons-pool2", "2.13.1"),
    ),
    is_alone=True,
)


def are_there() -> bool:
    """Whether the jars of a broker were fetched."""
    return _BROKER.folder.is_dir()


def kafka_jars() -> Path:
    """Return the folder with the jars of a broker, which are fetched if they are not there."""
    return _had(_BROKER)


def connector_is_there() -> bool:
    """Whether the jars of Spark's connector to Kafka were fetched."""
    return _CONNECTOR.folder.is_dir()


def connector_jars() -> Path:
    """Return the same of Spark's connector to Kafka."""
    return _had(_CONNECTOR)


def _had(jars: _Jars) -> Path:
    if not jars.folder.is_dir():
        _fetch(jars)
    return jars.folder


def _fetch(jars: _Jars) -> None:
    program = shutil.which("mvn")
    if program is None:
        raise NoJarsError("Kafka's jars are not in .cache, and there is no mvn to fetch them")
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as made:
        (Path(made) / "pom.xml").write_text(jars.pom())
        command = [program, "-q", "-B", "-f", str(Path(made) / "pom.xml")]
        command += ["dependency:copy-dependencies", "-DincludeScope=runtime"]
        command += [f"-DoutputDirectory={made}/libs"]
        try:
            done = subprocess.run(
                command, check=False, capture_output=True, text=True, timeout=_FETCH_S
            )
        except subprocess.TimeoutExpired as error:
            raise NoJarsError("mvn did not fetch Kafka's jars in time") from error
        if done.returncode:
            said = (done.stdout + done.stderr).strip().splitlines()
            raise NoJarsError(f"mvn cannot fetch Kafka's jars: {said[0] if said else 'no reason'}")
        _check(Path(made) / "libs", jars)
        try:
            os.replace(Path(made) / "libs", jars.folder)
        except OSError:
            # Another process has done the same meanwhile.
            if not jars.folder.is_dir():
                raise


def _check(folder: Path, jars: _Jars) -> None:
    """Raise unless the folder has exactly the jars that are known."""
    lines = [line.split() for line in (ROOT / "tools" / jars.digests).read_text().splitlines()]
    wanted = {name: digest for digest, name in lines}
    found = {each.name: hashlib.sha256(each.read_bytes()).hexdigest() for each in folder.iterdir()}
    strange = sorted(name for name in wanted | found if wanted.get(name) != found.get(name))
    if strange:
        raise NoJarsError(f"these jars are not those of {jars.digests}: {', '.join(strange)}")


if __name__ == "__main__":
    try:
        wanted = connector_jars if sys.argv[1:] == ["connector"] else kafka_jars
        sys.stdout.write(f"{wanted()}\n")
    except NoJarsError as error:
        sys.exit(str(error))
