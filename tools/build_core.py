"""Builds the compiled core, src/strandline/_core/core.abi3.so, from the C files beside it.

    build_core.py           build it if its sources have changed since
    build_core.py --force   build it anyway
    --compiler "clang"      with this compiler, and no other
    --flag -fsanitize=...   with one more flag
    --output FILE           to another place

Needs a C compiler and nothing else: neither Python's headers nor any package. Uses `cc`, else
the `ziglang` package of this Python, if it has it. Exits with 3 if there is neither, and with 1 if
the sources do not compile: Strandline then runs in plain Python.
"""

import argparse
import hashlib
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import List, Optional, Sequence

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SOURCES = os.path.join(ROOT, "src", "strandline", "_core")
LIBRARY = os.path.join(SOURCES, "core.abi3.so")
STAMP = os.path.join(ROOT, ".cache", "core-built-from")
FLAGS = ["-O2", "-std=gnu11", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra"]
LINKING = ["-shared", "-lm", "-pthread"]
if sys.platform == "darwin":
    LINKING += ["-undefined", "dynamic_lookup"]
NO_COMPILER = 3


class BuildError(Exception):
    """The compiler failed; the message is its output."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Build the compiled core.")
    parser.add_argument("--force", action="store_true")
    parser.add_argument("--compiler")
    parser.add_argument("--flag", action="append", default=[])
    parser.add_argument("--output", default=LIBRARY)
    options = parser.parse_args(arguments)
    is_usual = options.output == LIBRARY
    if is_usual and not options.force and is_built():
        return 0
    compiler = shlex.split(options.compiler) if options.compiler else find_compiler()
    if compiler is None:
        return NO_COMPILER
    try:
        build(compiler, options.output, options.flag)
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    if is_usual:
        note_built()
    return 0


def is_built() -> bool:
    """Return whether the library was built from the present sources."""
    try:
        with open(STAMP, encoding="utf-8") as file:
            return file.read() == fingerprint() and os.path.exists(LIBRARY)
    except OSError:
        return False


def note_built() -> None:
    os.makedirs(os.path.dirname(STAMP), exist_ok=True)
    with open(STAMP, "w", encoding="utf-8") as file:
        file.write(fingerprint())


def fingerprint() -> str:
    """Return a digest of everything that the library is made from."""
    digest = hashlib.sha256()
    for path in [*source_files(), os.path.abspath(__file__)]:
        with open(path, "rb") as file:
            digest.update(hashlib.sha256(file.read()).digest())
    return digest.hexdigest()


def source_files(*endings: str) -> List[str]:
    wanted = endings or (".c", ".h")
    names = sorted(name for name in os.listdir(SOURCES) if name.endswith(wanted))
    return [os.path.join(SOURCES, name) for name in names]


def find_compiler() -> Optional[List[str]]:
    """Return the command of a C compiler; None if there is none."""
    for name in (os.environ.get("CC") or "cc", "gcc", "clang"):
        words = name.split()
        if shutil.which(words[0]):
            return words
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc"]
    return None


def build(compiler: List[str], output: str, flags: Sequence[str] = ()) -> None:
    """Compile each file, two at a time, and link them; the library is replaced atomically."""
    objects = output + ".objects"
    shutil.rmtree(objects, ignore_errors=True)
    os.makedirs(objects)
    try:
        made = []
        commands = []
        for path in source_files(".c"):
            made.append(os.path.join(objects, os.path.basename(path) + ".o"))
            commands.append([*compiler, *FLAGS, *flags, "-c", path, "-o", made[-1]])
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(run, commands))
        linked = os.path.join(objects, "linked.so")
        run([*compiler, *flags, *made, *LINKING, "-o", linked])
        os.replace(linked, output)
    finally:
        shutil.rmtree(objects, ignore_errors=True)


def run(command: List[str]) -> None:
    answer = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, cwd=ROOT
    )
    if answer.returncode:
        said = answer.stdout.decode("utf-8", "replace").rstrip()
        raise BuildError(f"{' '.join(command)}\n{said}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
