"""The fixtures as a user's own test run gets them: the page's files, in a fresh pytest."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "test-your-code.md"


@pytest.fixture(autouse=True)
def _a_project_of_its_own(tmp_path: Path) -> None:
    # The folder may lie inside this project, whose settings are not a user's.
    (tmp_path / "pytest.ini").write_text("[pytest]\n")


@pytest.mark.slow
def test_the_files_of_the_page_pass_in_a_run_of_their_own(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n# (\S+)\n(.*?)```", PAGE.read_text(), re.DOTALL)
    for name, content in blocks:
        (tmp_path / name).write_text(content)
    assert {"conftest.py", "test_billing.py", "test_my_log.py"} <= {name for name, _ in blocks}

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout
    assert "failed" not in done.stdout
    billing = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "test_billing.py"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    )
    assert "[memory:] PASSED" in billing.stdout
    assert "[sqlite:] PASSED" in billing.stdout


@pytest.mark.slow
def test_fixtures_are_there_without_an_import_and_can_be_replaced(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "def test_log(log): assert log.topics() == [] or log.topics() == ()\n"
        "def test_clock(fake_clock): assert fake_clock.now_us() == 1_700_000_000_000_000\n"
        "class TestOwn:\n"
        "    @pytest.fixture\n"
        "    def log(self): return 'mine'\n"
        "    def test_log(self, log): assert log == 'mine'\n"
    )

    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
