"""The tables of benchmarks in README, on the home page and in the trade-offs, from
benchmarks/results.json.

python -m tools.benchmark_table     writes them
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from benchmarks.results import Result, load
from tools.this_run import Run

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results.json"
README = ROOT / "README.md"
HOME = ROOT / "docs" / "index.md"
PAGES = (README, HOME, ROOT / "docs" / "trade-offs.md")

_BLOCK = re.compile(r"(<!-- benchmarks -->\n).*?(<!-- end of benchmarks -->)", re.DOTALL)

#: Entry → its description, and the peers that are shown with it.
ROWS: Mapping[str, tuple[str, Sequence[str]]] = {
    "append.single.written.exclusive": (
        "`file:` one event at a time, written, exclusive",
        ("rocksdb", "lmdb", "sqlite", "raw"),
    ),
    "append.single.durable.exclusive": (
        "`file:` one event at a time, durable, exclusive",
        ("rocksdb", "lmdb", "sqlite", "raw"),
    ),
    "append.batch1000.written": (
        "`file:` a thousand at a time, written",
        ("lmdb", "rocksdb", "sqlite"),
    ),
    "append.delta.single.written": (
        "`file:` one event at a time, beside commits of a Delta table",
        ("delta",),
    ),
    "append.delta.batch1000.written": ("the same, a thousand at a time", ("delta",)),
    "append.arrow10k.written": ("`file:` Arrow batches of 10,000 rows, written", ("pyarrow",)),
    "append.processes.durable": ("`file:` four processes, one partition, durable", ("sqlite",)),
    "append.sqlite.single.written": ("`sqlite:` one event at a time, written", ("sqlite",)),
    "append.sqlite.sixteen.durable": ("`sqlite:` sixteen threads, durable", ("sqlite",)),
    "replay.arrow.singles": (
        "`file:` replay as Arrow, sealed",
        ("lmdb", "rocksdb", "sqlite", "pyarrow"),
    ),
    "replay.objects": ("`file:` replay as objects", ("lmdb", "rocksdb", "sqlite")),
    "tail.across.one.p50": (
        "from append to a reader in another process, median",
        ("inotify", "sqlite"),
    ),
    "servers.single.written": (
        "one event at a time, written, beside servers on this machine",
        ("redis", "jetstream"),
    ),
    "servers.single.durable": ("the same, durable", ("redis", "jetstream")),
    "servers.sixteen.durable": ("sixteen producers, durable", ("redis", "jetstream")),
    "servers.tail": ("from append to a reader in another process", ("redis", "jetstream")),
    "server.append.single16.written": (
        "`strandline serve`, 16 connections, one event at a time, written",
        ("redis", "jetstream"),
    ),
    "server.append.single16.durable": ("the same, durable", ("redis", "jetstream")),
    "engine.postgres.single": ("`postgresql:` one event at a time", ("psycopg",)),
    "engine.jetstream.single": ("`nats:` one event at a time", ("nats-py",)),
    "engine.kafka.single": ("`kafka:` one event at a time", ("confluent-kafka",)),
    "bytes.hot": ("bytes of an event, hot", ("raw", "sqlite")),
    "bytes.cold": ("bytes of an event, sealed with zstd", ("raw", "rocksdb")),
    "tier.read": ("reading a tiered topic", ("pyarrow",)),
}
NAMES = {
    "raw": "encode and `os.write`",
    "rocksdb": "RocksDB",
    "lmdb": "LMDB",
    "sqlite": "SQLite",
    "pyarrow": "pyarrow alone",
    "delta": "delta-rs",
    "inotify": "a bare file and inotify",
    "redis": "Redis Streams",
    "jetstream": "NATS JetStream",
    "psycopg": "psycopg into a table",
    "nats-py": "nats-py",
    "confluent-kafka": "confluent-kafka",
}


#: README and the home page have these only: where we are faster, and where we are slower.
FEW = (
    *("append.single.written.exclusive", "append.batch1000.written", "replay.arrow.singles"),
    *("replay.objects", "tail.across.one.p50", "append.sqlite.single.written"),
)


def table(page: Path, results: Sequence[Result]) -> str:
    """Return the table of a page in Markdown. More than 1 in the last column is better."""
    found = {each.name: each for each in results}
    names = [name for name in ROWS if name in FEW or page not in (README, HOME)]
    lines = ["| | ours | beside | ratio |", "|---|---|---|---|"]
    for name in names:
        text, peers = ROWS[name]
        result = found[name]
        beside = "; ".join(f"{NAMES[peer]} {shown(result.beside[peer])}" for peer in peers)
        ratios = "; ".join(f"{result.ratios[peer]:.2f}" for peer in peers)
        lines.append(f"| {text} | {shown(result.ours)} {result.unit} | {beside} | {ratios} |")
    return (
        "\n".join([*lines, "", f"Measured on {_days({found[name].run for name in names})}."]) + "\n"
    )


def _days(runs: Iterable[Run]) -> str:
    """Return each day of these runs, with its commits."""
    commits: dict[str, list[str]] = {}
    for each in sorted(runs, key=str):
        commits.setdefault(each.day, []).append(f"`{each.commit}`")
    return "; ".join(f"{day}, {' and '.join(found)}" for day, found in commits.items())


def shown(figure: float) -> str:
    """Return three significant digits; a shared machine measures no more."""
    return f"{float(f'{figure:.3g}'):,.0f}" if figure >= 100 else f"{figure:.3g}"


def written(page: str, block: str) -> str:
    """Return the page with the table in its place."""
    made, count = _BLOCK.subn(lambda found: found[1] + "\n" + block + "\n" + found[2], page)
    assert count == 1, "a page has one place for the table"
    return made


def main() -> None:
    """Write the table into its pages."""
    results = load(RESULTS)
    assert results is not None, "run make bench first"
    for page in PAGES:
        page.write_text(written(page.read_text(), table(page, results.entries)))


if __name__ == "__main__":
    main()
