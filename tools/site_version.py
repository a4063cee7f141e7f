"""Shows the version on each page of the site. mkdocs calls `on_config`."""

import tomllib
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[1] / "pyproject.toml"


def on_config(config: Any) -> Any:
    """Put the version beside the name, and the licence at the end."""
    project = tomllib.loads(PROJECT.read_text())["project"]
    config["site_name"] = f"Strandline {project['version']}"
    config["copyright"] = f"Strandline {project['version']}, {project['license']}"
    return config
