"""The commands of the how-to for other languages that share work, as a person would run them."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.logs import memory_log
from tests.server.served import Served

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "use-it-from-another-language.md"


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("curl") is None or shutil.which("jq") is None,
    reason="the commands of the page are curl's and jq's",
)
def test_the_commands_that_share_work_do_what_the_page_says(tmp_path: Path) -> None:
    commands = re.search(r"## Share the work.*?```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert commands is not None
    log = memory_log()
    served = Served(log)
    try:
        done = subprocess.run(
            [shutil.which("bash") or "", "-euc", commands.group(1)],
            env={**os.environ, "S": served.url},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    finally:
        served.stop()

    assert done.returncode == 0, done.stderr
    assert done.stdout.count('"status":"ok"') == 3
    assert '"lost"' not in done.stdout
    (lag,) = log.consumers("jobs")
    assert (lag.consumer, lag.cursor) == ("resizers", 1)
    log.close()
