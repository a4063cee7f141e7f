"""Prepares .venv from the lock files, and does nothing when it is up to date.

Runs on the bare python3 of a fresh machine, so it uses the standard library only
and keeps to syntax that an old Python can parse: an old Python prints a message
instead of a SyntaxError.

    setup_env.py            make .venv match requirements/ and pyproject.toml
    setup_env.py --lock     write requirements/ again from pyproject.toml
    setup_env.py --upgrade  the same, with the newest versions allowed
    --chosen                the caller selected this Python: search for no other
"""

import argparse
import ast
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from typing import Dict, List, NamedTuple, Optional, Tuple

OLDEST = (3, 11)
NEWER_PYTHONS = ("python3.13", "python3.12", "python3.11")

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENV = os.path.join(ROOT, ".venv")
VENV_PYTHON = os.path.join(VENV, "bin", "python")
UV = os.path.join(VENV, "bin", "uv")
MADE_BY = os.path.join(VENV, "made-by")
STAMP = os.path.join(VENV, "up-to-date")
CACHE = os.path.join(ROOT, ".cache")
NO_ZIG = os.path.join(CACHE, "no-zig")
NO_COMPILER = 3
SCRATCH = os.path.join(ROOT, ".tmp")
UV_LOCK = os.path.join("requirements", "uv.txt")
ZIG_LOCK = os.path.join("requirements", "zig.txt")
DEV_LOCK = os.path.join("requirements", "dev.txt")
RELEASE_LOCK = os.path.join("requirements", "release.txt")
SOURCE_BUILD_LOCK = os.path.join("requirements", "source-build.txt")

INDEX_ADVICE = (
    "Check the free space of the project folder, and that pip reaches its index\n"
    "(python3 -m pip config list shows which). Then run the same make command again."
)

INDEX_SETTINGS = {
    "index-url",
    "extra-index-url",
    "find-links",
    "no-index",
    "trusted-host",
    "cert",
    "client-cert",
    "proxy",
}

Settings = Dict[str, str]


class SetupError(Exception):
    """Set-up failed; the message says why and what to do next."""


class Python(NamedTuple):
    path: str
    version: str


def main(arguments: List[str]) -> int:
    parser = argparse.ArgumentParser(description="Prepare .venv from the lock files.")
    parser.add_argument("--chosen", action="store_true")
    parser.add_argument("--lock", action="store_true")
    parser.add_argument("--upgrade", action="store_true")
    options = parser.parse_args(arguments)
    os.chdir(ROOT)
    try:
        python = find_python(options.chosen)
        os.makedirs(CACHE, exist_ok=True)
        os.makedirs(SCRATCH, exist_ok=True)
        with open(os.path.join(CACHE, "setup.lock"), "w") as alone:
            fcntl.flock(alone, fcntl.LOCK_EX)
            if options.lock or options.upgrade:
                write_locks(python, options.upgrade)
            else:
                prepare(python)
    except SetupError as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped. The next make command continues from here.", file=sys.stderr)
        return 130
    except OSError as error:
        print(f"\nThe set-up failed: {error}.", file=sys.stderr)
        print("Check the rights and the free space of the project folder.", file=sys.stderr)
        return 1
    return 0


def find_python(chosen: bool) -> Python:
    version = ".".join(str(number) for number in sys.version_info[:3])
    if os.path.realpath(sys.prefix) == os.path.realpath(VENV):
        # It is activated: making it again with its own Python would remove that first.
        made_by = (read(MADE_BY) or "").split("\n")[1:]
        if len(made_by) != len(Python._fields):
            raise SetupError("Leave the environment .venv first (deactivate), then try again.")
        return Python(*made_by)
    if sys.version_info >= OLDEST:
        return Python(sys.executable, version)
    wanted = "{}.{}".format(*OLDEST)
    if chosen:
        raise SetupError(
            f"Strandline needs Python {wanted} or newer; the chosen one is {version}.\n"
            "Choose another, for example: make test PYTHON=python3.12"
        )
    for name in NEWER_PYTHONS:
        path = shutil.which(name)
        found = path and version_of(path)
        if path and found:
            return Python(path, found)
    raise SetupError(
        f"Strandline needs Python {wanted} or newer; python3 is {version},\n"
        f"and none of {', '.join(NEWER_PYTHONS)} works from the PATH.\n"
        "Install one, or name it: make test PYTHON=<path of a newer python3>"
    )


def version_of(path: str) -> Optional[str]:
    """Return the version of a Python, or None if it does not start."""
    code = "import platform; print(platform.python_version())"
    answer = subprocess.run(
        [path, "-I", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False
    )
    return answer.stdout.decode().strip() if answer.returncode == 0 else None


def prepare(python: Python) -> None:
    wanted = fingerprint(python)
    if read(STAMP) == wanted:
        build_core(python)
        return
    print(
        f"Preparing .venv with Python {python.version}; the first time takes a minute or two.",
        flush=True,
    )
    settings = prepare_uv(python)
    if os.path.exists(STAMP):
        os.remove(STAMP)
    lock = ["--require-hashes", DEV_LOCK, "--build-constraints", SOURCE_BUILD_LOCK]
    run_uv(settings, ["pip", "sync", *lock], "The locked packages could not be installed.")
    editable = ["--no-deps", "--no-build-isolation", "--editable", "."]
    run_uv(settings, ["pip", "install", *editable], "Strandline itself could not be installed.")
    # What was unpacked is in .venv now; without this the cache keeps PySpark three times.
    run_uv(settings, ["cache", "prune", "--ci"], "The cache of the set-up could not be pruned.")
    write(STAMP, wanted)
    build_core(python)


def build_core(python: Python) -> None:
    """Build the compiled core if its sources have changed, and if there is a compiler."""
    command = [VENV_PYTHON, "-I", "-X", "utf8", os.path.join("tools", "build_core.py")]
    code, output = ended(command, dict(os.environ))
    if code == NO_COMPILER and read(NO_ZIG) != identity(python):
        try:
            lock = ["--require-hashes", "-r", ZIG_LOCK]
            run_uv(pip_settings(python), ["pip", "install", *lock], "no compiler")
        except SetupError:
            # Not tried again with each command; `make clean` forgets it.
            write(NO_ZIG, identity(python))
        else:
            code, output = ended(command, dict(os.environ))
    if code == NO_COMPILER:
        print("No C compiler: Strandline runs in plain Python. Install cc to have it faster.")
    elif code:
        print(output.decode("utf-8", "replace").rstrip(), file=sys.stderr)
        print("The compiled core could not be built: Strandline runs in plain Python.")


def prepare_uv(python: Python) -> Settings:
    """Make .venv with uv in it, and return pip's settings for uv to use."""
    if read(MADE_BY) != identity(python):
        make_venv(python)
    settings = pip_settings(python)
    command = [VENV_PYTHON, "-m", "pip", "install", "--require-hashes", "-r", UV_LOCK]
    run(command, tool_environment(settings), "uv could not be installed.")
    return settings


def identity(python: Python) -> str:
    """Return what .venv is bound to: its scripts hold the path of the project folder."""
    return f"{ROOT}\n{python.path}\n{python.version}"


def fingerprint(python: Python) -> str:
    """Return a digest of everything that .venv is made from."""
    digest = hashlib.sha256(identity(python).encode("utf-8", "surrogateescape"))
    itself = os.path.join("tools", "setup_env.py")
    for name in (UV_LOCK, DEV_LOCK, SOURCE_BUILD_LOCK, "pyproject.toml", itself):
        with open(name, "rb") as file:
            digest.update(hashlib.sha256(file.read()).digest())
    return digest.hexdigest()


def read(path: str) -> Optional[str]:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except FileNotFoundError:
        return None


def write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)


def make_venv(python: Python) -> None:
    minor = ".".join(python.version.split(".")[:2])
    advice = (
        f"On Debian and Ubuntu: apt-get install python3-venv (or python{minor}-venv).\n"
        "Elsewhere: use a Python that has the modules venv and ensurepip, and check that\n"
        "the project folder has free space. Then run the same make command again."
    )
    shutil.rmtree(VENV, ignore_errors=True)
    command = [python.path, "-I", "-m", "venv", VENV]
    failure = f"Python {python.version} could not make the virtual environment .venv."
    run(command, tool_environment({}), failure, advice)
    write(MADE_BY, identity(python))


def pip_settings(python: Python) -> Settings:
    """Return pip's configuration from files and the environment, which has precedence."""
    for path in (python.path, VENV_PYTHON):
        answer = subprocess.run(
            [path, "-I", "-m", "pip", "config", "list"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        if answer.returncode == 0:
            return parse_pip_settings(answer.stdout.decode("utf-8", "surrogateescape"))
    return {}


def parse_pip_settings(listing: str) -> Settings:
    sections = {"global": {}, "install": {}, ":env:": {}}  # type: Dict[str, Settings]
    for line in listing.splitlines():
        key, _, value = line.partition("=")
        section, _, name = key.partition(".")
        if section in sections:
            sections[section][name] = str(ast.literal_eval(value))
    return {**sections["global"], **sections["install"], **sections[":env:"]}


def tool_environment(settings: Settings) -> Dict[str, str]:
    """Return the environment for pip and uv: pip's index, caches inside the project."""
    strangers = re.compile(r"UV_|PYTHONPATH$|PYTHONHOME$|PIP_(TARGET|PREFIX|ROOT|USER)$")
    environment = {k: v for k, v in os.environ.items() if not strangers.match(k)}
    environment.update(
        PIP_CACHE_DIR=os.path.join(CACHE, "pip"),
        PIP_DISABLE_PIP_VERSION_CHECK="1",
        PIP_NO_INPUT="1",
        PIP_USER="0",
        PYTHONUTF8="1",
        TMPDIR=SCRATCH,
        UV_CACHE_DIR=os.path.join(CACHE, "uv"),
        UV_INDEX_STRATEGY="unsafe-best-match",
        UV_NO_CONFIG="1",
        UV_NO_PROGRESS="1",
        UV_PYTHON_DOWNLOADS="never",
    )
    environment.update(as_uv_variables(settings))
    environment.update(as_pip_variables(settings))
    return environment


def as_uv_variables(settings: Settings) -> Dict[str, str]:
    names = {
        "index-url": "UV_DEFAULT_INDEX",
        "extra-index-url": "UV_INDEX",
        "trusted-host": "UV_INSECURE_HOST",
        "timeout": "UV_HTTP_TIMEOUT",
        "default-timeout": "UV_HTTP_TIMEOUT",
        "cert": "SSL_CERT_FILE",
        "client-cert": "SSL_CLIENT_CERT",
        "proxy": "ALL_PROXY",
    }
    variables = {}
    for name, variable in names.items():
        if settings.get(name):
            variables[variable] = " ".join(settings[name].split())
    links = [place for place in settings.get("find-links", "").split() if is_readable(place)]
    if links:
        variables["UV_FIND_LINKS"] = ",".join(links)
    return variables


def as_pip_variables(settings: Settings) -> Dict[str, str]:
    """Return the settings again for the pip of .venv, which does not read all of their files."""
    return {
        f"PIP_{k.upper().replace('-', '_')}": settings[k] for k in INDEX_SETTINGS & set(settings)
    }


def is_readable(place: str) -> bool:
    """Say whether uv may be given a find-links place: pip skips a missing folder, uv stops."""
    return "://" in place or os.access(place, os.R_OK)


def write_locks(python: Python, upgrade: bool) -> None:
    settings = prepare_uv(python)
    settings.pop("find-links", None)  # A lock made from local files would fit no other machine.
    shape = ["--universal", "--python-version", "{}.{}".format(*OLDEST), "--generate-hashes"]
    shape += ["--no-emit-index-url", "--no-emit-find-links", "--quiet"]
    shape += ["--custom-compile-command", "make lock"]
    shape += ["--upgrade"] if upgrade else []
    sources = {
        UV_LOCK: ["--group", "installer"],
        SOURCE_BUILD_LOCK: ["--group", "source-build"],
        RELEASE_LOCK: ["--group", "release"],
        ZIG_LOCK: ["--group", "zig"],
        DEV_LOCK: ["pyproject.toml", "--group", "dev"],
    }
    for target, source in sources.items():
        command = ["pip", "compile", *source, *shape, "--output-file", target]
        run_uv(settings, command, f"{target} could not be written.")
        print(f"Wrote {target}.")


def run_uv(settings: Settings, arguments: List[str], failure: str) -> None:
    environment = tool_environment(settings)
    environment["VIRTUAL_ENV"] = VENV
    offline = settings.get("no-index", "").lower() in ("1", "true", "yes", "on")
    run([UV, *arguments, *(["--no-index"] if offline else [])], environment, failure)


def run(
    command: List[str], environment: Dict[str, str], failure: str, advice: str = INDEX_ADVICE
) -> None:
    code, output = ended(command, environment)
    if code == 0:
        return
    said = without_credentials(output.decode("utf-8", "replace")).rstrip()
    raise SetupError(f"{said}\n\n{failure}\n{advice}")


def ended(command: List[str], environment: Dict[str, str]) -> Tuple[int, bytes]:
    """Run a command to its end; on a terminal the seconds that pass are shown."""
    began, is_watched, output = time.monotonic(), sys.stdout.isatty(), b""
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        try:
            while True:
                try:
                    output, _ = process.communicate(timeout=1.0)
                    break
                except subprocess.TimeoutExpired:
                    if is_watched:
                        print(f"\r{time.monotonic() - began:5.0f} s", end="", flush=True)
        except BaseException:
            process.kill()
            raise
    if is_watched:
        print("\r       \r", end="", flush=True)
    return process.returncode, output


def without_credentials(text: str) -> str:
    return re.sub(r"://[^/@\s]+@", "://***@", text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
