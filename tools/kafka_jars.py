"""Brings the jars of a Kafka broker for the tests into .cache/kafka, once.

They come by Maven as this machine is configured, and are used only if each has the digest in
kafka_jars.sha256. `python -m tools.kafka_jars` prints the folder.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
CACHE: Final = ROOT / ".cache" / "kafka"
DIGESTS: Final = Path(__file__).with_suffix(".sha256")
VERSION: Final = "4.3.1"
_FETCH_S: Final = 300
_POM: Final = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>strandline</groupId><artifactId>broker</artifactId><version>1</version>
  <dependencies><dependency>
    <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId>
    <version>{VERSION}</version>
  </dependency></dependencies>
</project>
"""


class NoJarsError(Exception):
    """Why there are no jars."""


_FOLDER: Final = CACHE / f"libs-{VERSION}"


def are_there() -> bool:
    """Whether the jars were fetched."""
    return _FOLDER.is_dir()


def kafka_jars() -> Path:
    """Return the folder with the jars, which are fetched if they are not there."""
    if not are_there():
        _fetch(_FOLDER)
    return _FOLDER


def _fetch(folder: Path) -> None:
    program = shutil.which("mvn")
    if program is None:
        raise NoJarsError("Kafka's jars are not in .cache, and there is no mvn to fetch them")
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as made:
        (Path(made) / "pom.xml").write_text(_POM)
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
        _check(Path(made) / "libs")
        try:
            os.replace(Path(made) / "libs", folder)
        except OSError:
            # Another process was faster.
            if not folder.is_dir():
                raise


def _check(folder: Path) -> None:
    """Raise unless the folder has exactly the jars that are known."""
    lines = [line.split() for line in DIGESTS.read_text().splitlines()]
    wanted = {name: digest for digest, name in lines}
    found = {each.name: hashlib.sha256(each.read_bytes()).hexdigest() for each in folder.iterdir()}
    strange = sorted(name for name in wanted | found if wanted.get(name) != found.get(name))
    if strange:
        raise NoJarsError(f"these jars are not those of kafka_jars.sha256: {', '.join(strange)}")


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{kafka_jars()}\n")
    except NoJarsError as error:
        sys.exit(str(error))
