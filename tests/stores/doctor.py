"""What the command `doctor` finds of a server."""

import json

import pytest

from strandline.cli.app import app


def doctor_checks(capsys: pytest.CaptureFixture[str], url: str) -> dict[str, tuple[str, str, str]]:
    """Return verdict, finding and advice of each check."""
    with pytest.raises(SystemExit):
        app(["doctor", url, "--json"])
    found = json.loads(capsys.readouterr().out)
    return {
        each["check"]: (each["verdict"], each["found"], each["advice"]) for each in found["checks"]
    }
