"""The set-up of a checkout, as far as it can be seen from within one."""

import sys
from pathlib import Path

import pytest

from tools import setup_env


def test_an_activated_environment_is_never_made_again_from_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PYTHON=.venv/bin/python, or make after `source .venv/bin/activate`."""
    made_by = tmp_path / "made-by"
    made_by.write_text("/the/project\n/usr/bin/python3\n3.11.2")
    monkeypatch.setattr(setup_env, "VENV", sys.prefix)
    monkeypatch.setattr(setup_env, "MADE_BY", str(made_by))

    assert setup_env.find_python(chosen=True) == ("/usr/bin/python3", "3.11.2")
