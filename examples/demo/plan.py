"""What one run is: how many events, and where everything lies."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

SHOP, EXPRESS, PAID = "shop", "express", "paid"
TOPICS = (SHOP, EXPRESS, PAID)
PARTITIONS = 4
PRODUCERS = 2
#: Orders taken at the desk, each followed by a question that must know of it.
DESK_ORDERS = 20

EVENTS_DEFAULT = 60_000
EVENTS_MIN = 500
#: At this rate on average; the day has its quiet and its busy hours.
EVENTS_PER_S = 2_500
MICRO_BATCHES = 6

_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Plan:
    """One run of the demo, below one folder."""

    folder: str
    events: int
    seed: int = 2026
    #: The log, if it is not below the folder.
    elsewhere: str = ""

    @classmethod
    def of_environment(cls) -> Self:
        """Return what DEMO_EVENTS, DEMO_FOLDER and DEMO_URL ask for."""
        wanted = os.environ.get("DEMO_EVENTS") or str(EVENTS_DEFAULT)
        if not wanted.isdecimal() or int(wanted) < EVENTS_MIN:
            raise SystemExit(f"DEMO_EVENTS is a number, {EVENTS_MIN} or more: {wanted!r} is not")
        folder = os.environ.get("DEMO_FOLDER") or str(_ROOT / ".cache" / "demo")
        elsewhere = os.environ.get("DEMO_URL", "")
        return cls(os.path.abspath(folder), int(wanted), elsewhere=elsewhere)

    @classmethod
    def load(cls, folder: str) -> Self:
        """Return the plan of a run that was made in this folder."""
        with open(os.path.join(os.path.abspath(folder), "plan.json"), encoding="utf-8") as file:
            return cls(os.path.abspath(folder), **json.load(file))

    def save(self) -> None:
        """Write it into its folder."""
        kept = {name: value for name, value in asdict(self).items() if name != "folder"}
        Path(self.path("plan.json")).write_text(json.dumps(kept), encoding="utf-8")

    def path(self, *names: str) -> str:
        """Return the path of something in the folder."""
        return os.path.join(self.folder, *names)

    @property
    def url(self) -> str:
        return self.elsewhere or f"file:{self.path('events')}"

    @property
    def staging(self) -> dict[str, str]:
        """Where Spark's sink stages rows, if the log has no folder."""
        if not self.elsewhere or self.elsewhere.startswith(("file:", "sqlite:")):
            return {}
        return {"stagingLocation": f"file://{self.path('staging')}"}

    @property
    def store(self) -> str:
        return f"file://{self.path('cold')}"

    @property
    def day_s(self) -> float:
        """How long the day takes here."""
        return self.events / EVENTS_PER_S
