"""What `import strandline` brings with it, and what it does not."""

import subprocess
import sys

import pytest

import strandline

#: Slow to import, or optional: a program pays for them when it uses them.
HEAVY = (
    *("pyarrow", "msgspec", "asyncio", "sqlite3", "ssl", "obstore", "sqlglot"),
    *("typer", "click", "rich", "pyspark", "pytest", "IPython"),
)
#: Optional, so that not even opening a log may need them.
OPTIONAL = (
    "obstore",
    "sqlglot",
    "duckdb",
    "polars",
    "deltalake",
    "typer",
    "click",
    "rich",
    "pyspark",
    "pytest",
    "starlette",
)


def loaded_by(code: str) -> set[str]:
    shown = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"],
        check=True,
        capture_output=True,
        text=True,
    )
    return set(shown.stdout.split())


def test_importing_strandline_imports_nothing_heavy() -> None:
    loaded = loaded_by("import strandline")

    assert not loaded & set(HEAVY)
    assert {name for name in loaded if name.startswith("strandline.")} == set()


@pytest.mark.slow
def test_opening_a_log_imports_nothing_optional() -> None:
    loaded = loaded_by("import strandline; strandline.open('memory:').close()")

    assert "strandline.stores.memory" in loaded
    assert not loaded & set(OPTIONAL)


@pytest.mark.slow
def test_a_server_without_flight_imports_nothing_of_it() -> None:
    loaded = loaded_by("import strandline.server.running")

    assert "uvicorn" in loaded
    assert not loaded & {"duckdb", "pyarrow.flight", "strandline.server.flight"}


@pytest.mark.slow
def test_the_pytest_plugin_waits_for_its_fixtures_to_be_requested() -> None:
    loaded = loaded_by("import strandline.testing.pytest_plugin")

    assert not loaded & {"pyarrow", "msgspec", "strandline.opening"}


@pytest.mark.parametrize("name", strandline.__all__)
def test_every_name_is_there_when_it_is_used(name: str) -> None:
    assert getattr(strandline, name) is not None
    assert name in dir(strandline)


def test_a_name_that_there_is_not_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'opne'"):
        strandline.opne  # type: ignore[attr-defined] # noqa: B018


@pytest.mark.slow
@pytest.mark.parametrize(
    ("missing", "code", "extra"),
    [
        (
            "obstore",
            "from strandline.tiering import tier; tier(log, 'a', 'file:///nowhere')",
            "tiering",
        ),
        ("pyspark", "from strandline.spark import local_session; local_session('.')", "spark"),
        ("pyspark", "from strandline.spark import table; table(None, 'file:./a', 'a')", "spark"),
        ("pyspark", "from strandline.spark import jobs", "spark"),
        ("pyspark", "from strandline.spark.listener import ConsumerListener", "spark"),
        ("pyspark", "from strandline.spark.source import StrandlineSource", "spark"),
        ("starlette", "from strandline.server import TokenTable", "server"),
        ("prometheus_client", "from strandline.server.running import Address", "server"),
        ("uvicorn", "from strandline.server.running import Address", "server"),
        ("httptools", "from strandline.server.running import Address", "server"),
        (
            "duckdb",
            "from strandline.server.running import *; RunningServer(log, Address(flight_port=0))",
            "server",
        ),
    ],
)
def test_asking_for_a_part_that_is_not_installed_names_its_extra(
    missing: str, code: str, extra: str
) -> None:
    program = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        "import strandline as sl\n"
        "log = sl.open('memory:'); log.create_topic('a')\n"
        f"try:\n    {code}\n"
        "except sl.InvalidError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True
    )

    assert f"pip install 'path/to/strandline[{extra}]'" in done.stdout, done.stderr
