"""Builds the packages into dist/ and checks everything about them. Publishes nothing.

    python -m tools.release            all of it, about five minutes
    python -m tools.release --only types

Each check has a name, and `--only` runs one; all but `api` begin with the build.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tools import setup_env

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
PLACE = ROOT / ".cache" / "release"
#: 1980, the earliest time in a zip file; used if there is no commit.
_EPOCH = "315532800"
_TEN_LINES = """
import strandline as sl
log = sl.open("file:./events")
log.create_topic("orders", partitions=4)
log.append("orders", sl.Event("order.created", {"id": 17}, key="c-9")).wait(sl.Durability.DURABLE)
with log.subscribe("orders", start=sl.EARLIEST) as orders:
    assert next(orders).payload == {"id": 17}
log.close()
print(sl.__version__)
"""


class CheckError(Exception):
    """A check has failed; the message says what is wrong."""


def build() -> None:
    """Build wheel and source package twice, and compare the two byte for byte."""
    again = PLACE / "again"
    for folder in (DIST, again):
        shutil.rmtree(folder, ignore_errors=True)
        command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
        run(command, {"SOURCE_DATE_EPOCH": _commit_time()})
    first, second = digests(DIST), digests(again)
    if first != second:
        raise CheckError(f"two builds of one commit differ: {first} {second}")
    for name, digest in sorted(first.items()):
        print(f"  {digest}  {name}")


def digests(folder: Path) -> dict[str, str]:
    """Return the digest of each package in a folder."""
    packages = (path for path in folder.iterdir() if path.suffix in (".whl", ".gz"))
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in packages}


def metadata() -> None:
    """Run twine's checks of what an index would refuse, and check that types are declared."""
    run([str(_tools() / "twine"), "check", "--strict", *map(str, (wheel(), source()))])
    with zipfile.ZipFile(wheel()) as packed:
        if "strandline/py.typed" not in packed.namelist():
            raise CheckError("the wheel lacks strandline/py.typed, so no checker sees its types")


def install() -> None:
    """Install the wheel, and the wheel of the source package, and use each."""
    for package in (wheel(), source()):
        python = fresh("installed", f"{package}[cli]")
        folder = PLACE / "used"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for core in ("on", "off"):
            variables = {"STRANDLINE_CORE": core}
            run([str(python), "-I", "-c", _TEN_LINES], variables, folder)
            shutil.rmtree(folder / "events")
        run([str(python), "-I", "-c", _TEN_LINES], folder=folder)
        run(
            [str(python.with_name("strandline")), "verify", "--url", "file:./events"], folder=folder
        )


def tests() -> None:
    """Unpack the source package and run its own fast tests, with its own code."""
    folder = PLACE / "source"
    shutil.rmtree(folder, ignore_errors=True)
    with tarfile.open(source()) as packed:
        packed.extractall(folder, filter="data")
    (unpacked,) = folder.iterdir()
    command = [sys.executable, "-m", "pytest", "-q", "-n", "auto", "--maxprocesses", "4"]
    command += ["-m", "not slow and not heavy"]
    run(command, {"PYTHONPATH": str(unpacked / "src")}, unpacked)


def types() -> None:
    """Run pyright to find public names whose type is unknown, or only inferred."""
    # With all extras, since names from missing packages would have an unknown type.
    lock = str(ROOT / setup_env.DEV_LOCK)
    python = fresh("typed", f"{wheel()}[all]", "--constraint", lock)
    command = [str(_tools() / "pyright"), "--verifytypes", "strandline", "--ignoreexternal"]
    folder = python.parents[1]
    environment = {
        "PATH": f"{python.parent}{os.pathsep}{os.environ.get('PATH', '')}",
        "VIRTUAL_ENV": str(folder),
    }
    told = subprocess.run(
        [*command, "--outputjson"],
        env={**os.environ, **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        found = json.loads(told.stdout)["typeCompleteness"]["symbols"]
    except (json.JSONDecodeError, KeyError):
        raise CheckError(f"pyright gave no answer:\n{told.stdout}{told.stderr}") from None
    public = [each for each in found if each["isExported"]]
    unknown = sorted(untyped(public))
    print(f"  {len(public)} public names, {len(unknown)} without a known type")
    if unknown:
        listed = "\n".join(f"  {each}" for each in unknown)
        raise CheckError(f"annotate these, or make them private:\n{listed}")


def untyped(symbols: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield each public name whose type is not known for certain, and pyright's message."""
    for each in symbols:
        if not each["isTypeKnown"] or each["isTypeAmbiguous"]:
            told = (line["message"].replace("\n", " ") for line in each["diagnostics"])
            yield f"{each['name']}: {next(told, 'unknown')}"


def api() -> None:
    """Compare the interface with the stored one."""
    run([sys.executable, "-m", "tools.api_baseline"])


CHECKS = {each.__name__: each for each in (api, metadata, install, types, tests)}


def wheel() -> Path:
    """Return the wheel that was built."""
    (found,) = DIST.glob("*.whl")
    return found


def source() -> Path:
    """Return the source package that was built."""
    (found,) = DIST.glob("*.tar.gz")
    return found


def fresh(name: str, *packages: str) -> Path:
    """Return the Python of a new environment that has these packages and nothing else."""
    folder = PLACE / name
    uv("venv", "--clear", "--no-project", "--python", sys.executable, str(folder))
    python = folder / "bin" / "python"
    uv("pip", "install", "--python", str(python), *packages)
    return python


def _tools() -> Path:
    """Return the folder of pyright and twine, in the versions of the lock file."""
    folder, lock = PLACE / "tools", ROOT / setup_env.RELEASE_LOCK
    stamp = folder / "up-to-date"
    wanted = hashlib.sha256(lock.read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text() != wanted:
        uv("venv", "--clear", "--no-project", "--python", sys.executable, str(folder))
        python = str(folder / "bin" / "python")
        uv("pip", "sync", "--python", python, "--require-hashes", str(lock))
        stamp.write_text(wanted)
    return folder / "bin"


def uv(*arguments: str) -> None:
    """Run uv with the index that pip is configured with."""
    settings = setup_env.pip_settings(setup_env.Python(sys.executable, ""))
    environment = setup_env.tool_environment(settings)
    environment.pop("VIRTUAL_ENV", None)
    setup_env.run([setup_env.UV, *arguments], environment, "A package could not be installed.")


def run(
    command: Sequence[str], variables: Mapping[str, str] | None = None, folder: Path = ROOT
) -> None:
    """Run a command to its end; CheckError with what it printed if it fails."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **(variables or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise CheckError(f"{' '.join(command)}\n{done.stdout}")


def _commit_time() -> str:
    told = subprocess.run(
        ["git", "log", "-1", "--format=%ct"],  # noqa: S607 # The git of the PATH.
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return told.stdout.strip() or _EPOCH


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Build the packages, and check them.")
    parser.add_argument("--only", choices=CHECKS, help="one check, after the build")
    options = parser.parse_args(arguments)
    PLACE.mkdir(parents=True, exist_ok=True)
    chosen = [CHECKS[options.only]] if options.only else list(CHECKS.values())
    for step in (build, *chosen):
        print(f"{step.__name__}: {(step.__doc__ or '').splitlines()[0]}", flush=True)
        try:
            step()
        except (CheckError, setup_env.SetupError) as error:
            print(f"\n{error}\n\nThe packages are not ready: {step.__name__}.", file=sys.stderr)
            return 1
    print("The packages in dist/ are ready. Nothing was published.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
