"""Consumers, trimming, verifying, tiering, views, the machine."""

import importlib.metadata
import json
import os
import re
import shutil
from pathlib import Path

import msgspec
import pytest

import strandline as sl
from strandline.cli.checkup import CheckResult, LogPlace, is_healthy, look
from strandline.clock import SystemClock
from strandline.io import FileSystem, InotifyLimits
from strandline.testing import FakeClock
from tests.cli.program import ran, run
from tests.cli.test_examples import save_view


@pytest.mark.slow
def test_a_topic_is_made_with_the_settings_given() -> None:
    done = ran(
        *("create", "orders", "--partitions", "3", "--retention-age", "2w"),
        *("--retention-bytes", "1MiB", "--limit-bytes", "2MB", "--proof", "--json"),
    )

    shown = ran("describe", "orders", "--json").document
    assert done.document == shown
    assert shown["retention_age_s"] == 14 * 86_400
    assert (shown["retention_bytes"], shown["limit_bytes"]) == (1024**2, 2_000_000)
    assert (shown["proof"], len(shown["partitions"]), shown["kind"]) == (True, 3, "event")
    other = run("create", "orders", "--partitions", "3", "--proof", "--kind", "bytes")
    assert other.code == 3
    assert other.stderr.rstrip().endswith(
        "topic='orders' value_kind='event' retention_age_s=1209600 retention_bytes=1048576 "
        "limit_bytes=2000000 value_kind_asked='bytes' retention_age_s_asked=None "
        "retention_bytes_asked=None limit_bytes_asked=None"
    ), "says what is other than was asked for"


@pytest.mark.slow
def test_partitions_are_added_and_limits_changed(orders: str) -> None:
    added = ran("add-partitions", orders, "3", "--json").document
    changing = ("retention", orders, "--age", "2d", "--bytes", "1MiB", "--json")
    [limited] = ran(*changing).document["topics"]
    [freed] = ran("retention", orders, "--age", "none", "--json").document["topics"]

    assert [each["high"] for each in added["partitions"]] == [5, 0, 0]
    assert (limited["retention_age_s"], limited["retention_bytes"]) == (2 * 86_400, 1024**2)
    assert (freed["retention_age_s"], freed["retention_bytes"]) == (None, 1024**2)
    assert ran("retention", "--json").document["topics"] == [freed]
    assert (freed["ran_at"], freed["held"]) == (None, [])
    assert "1,048,576" in ran("retention", orders).stdout
    assert run("retention", "--age", "1d").code == 2, "of which topic?"
    assert run("add-partitions", orders, "2").code == 2, "never fewer"


@pytest.mark.slow
def test_what_payloads_have_is_declared_and_shown_and_removed(orders: str) -> None:
    fields = "n BIGINT, to.city STRING"
    assert "nothing is declared" in ran("declare", orders).stdout
    assert fields in ran("declare", orders, fields).stdout
    shown = ran("declare", orders, "--json").document
    assert (shown["topic"], shown["payload"]) == (orders, fields)
    assert shown["payload_schema"] == {"n": "int64", "to": "struct<city: string>"}

    misspelled = run("tail", orders, "--where", "payload.nn = 1")
    wrong = run("declare", orders, "n BIGIN")

    assert "the nearest is payload.n" in misspelled.stderr
    assert wrong.code == 2
    assert wrong.stderr.rstrip().endswith("position=2 near=['BIGINT'] text='n BIGIN'")
    assert run("declare", orders, fields, "--remove").code == 2
    ran("declare", orders, "--remove")
    assert ran("declare", orders, "--json").document["payload"] is None
    made = ran("create", "sales", "--payload", fields, "--json").document
    assert made["payload_schema"] == shown["payload_schema"]


@pytest.mark.slow
def test_a_topic_is_dropped_once_that_is_confirmed(orders: str) -> None:
    ran("seek", orders, "mailer", "earliest")

    asked = run("drop", orders)
    done = ran("drop", orders, "--yes", "--json").document

    assert asked.code == 2
    assert "records=5 consumers=['mailer']" in asked.stderr
    assert done == {"topic": orders, "tenant": None, "records": 5}
    assert ran("topics", "--json").document == {"topics": []}


@pytest.mark.slow
def test_a_log_is_described(orders: str) -> None:
    shown = ran("describe", "--json").document

    assert (shown["backend"], shown["topics"], shown["records"]) == ("file", 1, 5)
    assert "durability_max  durable" in ran("describe").stdout


@pytest.mark.slow
def test_a_consumer_is_moved_and_listed_with_its_lag(orders: str) -> None:
    def lags(*arguments: str) -> list[tuple[str, int, int]]:
        found = ran(*arguments, "--json").document["consumers"]
        return [(each["consumer"], each["cursor"], each["lag"]) for each in found]

    assert lags("ack", orders, "mailer", "--to", "3") == [("mailer", 3, 2)]
    assert lags("ack", orders, "mailer", "--to", "1") == [("mailer", 3, 2)], "never back"
    assert lags("seek", orders, "mailer", "earliest") == [("mailer", 0, 5)]
    assert lags("seek", orders, "other", "latest") == [("other", 5, 0)]
    assert lags("seek", orders, "other", "4") == [("other", 4, 1)]
    assert lags("consumers", orders) == [("mailer", 0, 5), ("other", 4, 1)]
    assert run("ack", orders, "mailer", "--to", "9").code == 2


@pytest.mark.slow
def test_lag_is_listed_over_all_topics_and_a_consumer_forgotten(orders: str) -> None:
    ran("create", "other")
    ran("ack", orders, "mailer", "--to", "3")
    ran("seek", "other", "mailer", "earliest")

    shown = ran("lag", "--json").document
    table = ran("lag").stdout
    gone = ran("forget", orders, "mailer", "--json").document
    again = ran("forget", orders, "mailer", "--json").document

    found = [(each["topic"], each["consumer"], each["lag"]) for each in shown["consumers"]]
    assert (shown["lag"], found) == (2, [(orders, "mailer", 2), ("other", "mailer", 0)])
    assert not re.search(r"\s[\d,]+\.\d{4}", table), "seconds with more digits than are read"
    assert (gone["is_removed"], again["is_removed"]) == (True, False)
    assert [each["topic"] for each in ran("lag", "--json").document["consumers"]] == ["other"]


@pytest.mark.slow
def test_what_holds_retention_back_is_shown(orders: str) -> None:
    clock = FakeClock(now_us=SystemClock().now_us() + 10**9)
    with sl.open(clock=clock) as log:
        log.change_retention(orders, retention_age_s=1)
        log.register(orders, "mailer", {0: 3})
        log.append(orders, sl.Event("k"))
        clock.advance(70)

    [shown] = ran("retention", orders, "--json").document["topics"]

    assert shown["held"] == [{"partition": 0, "offset": 3, "consumers": ["mailer"]}]
    assert shown["ran_at"] is not None
    assert "mailer at 0:3" in ran("retention").stdout


@pytest.mark.slow
def test_columns_stand_in_line_whatever_the_letters_are(orders: str) -> None:
    for name in ("mailer", "\u5e33\u7c3f"):
        ran("seek", orders, name, "earliest")

    header, latin, wide = ran("consumers", orders).stdout.splitlines()

    start = header.index("tenant")
    assert latin[start] == "-"
    assert wide[start - 2] == "-", "each of its two letters takes two columns"


@pytest.mark.slow
def test_trimming_waits_for_consumers_unless_it_is_forced(orders: str) -> None:
    ran("ack", orders, "mailer", "--to", "2")

    [held] = ran("trim", orders, "--before", "4", "--json").document["partitions"]
    [forced] = ran("trim", orders, "--before", "4", "--force", "--json").document["partitions"]
    [all_of_it] = ran("trim", orders, "--before", "99", "--force", "--json").document["partitions"]

    assert (held["removed"], held["low"], held["held_at"]) == (2, 2, 2)
    assert (forced["removed"], forced["low"]) == (2, 4)
    assert (all_of_it["low"], all_of_it["remaining"]) == (5, 0)
    trimmed = run("read", orders, "--from", "0", "--json")
    assert trimmed.code == 5
    assert ran("trim", orders, "--retention", "--json").document["partitions"][0]["removed"] == 0


@pytest.mark.slow
def test_a_flipped_byte_is_found_by_verify(orders: str, folder: Path) -> None:
    assert ran("verify", "--json").document["is_sound"]
    [segment] = folder.rglob("*.segment")
    content = bytearray(segment.read_bytes())
    content[200] ^= 1
    segment.write_bytes(content)

    done = run("verify", orders, "--json")

    assert done.code == 1
    assert not done.document["is_sound"]
    [report] = done.document["partitions"]
    assert report["findings"][0]["reason"]
    assert run("read", orders).code == 10
    assert "frame" in run("verify").stderr


@pytest.mark.slow
def test_heads_that_were_kept_show_whether_history_was_replaced(folder: Path) -> None:
    ran("create", "audited", "--proof")
    ran("append", "audited", "1", "2", "--kind", "a")
    ran("verify", "audited", "--heads", "heads.jsonl")
    ran("append", "audited", "3", "--kind", "a")
    ran("verify", "audited", "--expected", "heads.jsonl")

    [line] = (folder / "heads.jsonl").read_text().splitlines()
    head = msgspec.json.decode(line)
    head["digest"] = "00" * 32
    (folder / "forged.jsonl").write_bytes(msgspec.json.encode(head))

    assert run("verify", "audited", "--expected", "forged.jsonl").code == 1
    (folder / "no.jsonl").write_text("{}")
    assert run("verify", "audited", "--expected", "no.jsonl").code == 2


@pytest.mark.slow
def test_tiered_records_are_copied_evicted_and_read_as_before(orders: str, folder: Path) -> None:
    before = ran("read", orders, "--json").stdout

    done = ran(
        "tier", orders, f"file://{folder}/cold", "--include-open", "--local-bytes", "0", "--json"
    )

    assert done.document["copied_records"] == done.document["evicted_records"] == 5
    assert list(folder.rglob("*.parquet"))
    assert ran("read", orders, "--json").stdout == before


@pytest.mark.slow
def test_tiering_reports_what_it_did_and_what_more_there_is(orders: str, folder: Path) -> None:
    store = f"file://{folder}/cold"

    assert "--include-open" in ran("tier", orders, store).stdout
    told = ran("tier", orders, store, "--include-open", "--local-bytes", "0").stdout
    assert told.startswith("orders: 5 records copied in 1 object of ")
    assert told.endswith(" bytes, 5 evicted here\n")


def test_one_record_is_a_record_and_two_are_records() -> None:
    ran("create", "visits")
    ran("append", "visits", "1", "--kind", "a", "--key", "k")

    asked = ran("erase", "visits", "--key", "k").stdout
    assert asked == "visits: 1 record would be erased, pass --yes to erase\n"
    assert ran("export", "visits", "one.jsonl").stdout == "visits: 1 record in one.jsonl\n"
    ran("append", "visits", "2", "--kind", "a")
    assert ran("drop", "visits", "--yes").stdout == "visits: dropped, with 2 records\n"


@pytest.mark.slow
def test_the_snapshot_of_a_view_shows_how_far_it_is(orders: str, folder: Path) -> None:
    save_view(folder)
    ran("append", orders, '{"id": 9}', "--kind", "order.paid")

    [view] = ran("views", "totals.snapshot", "--json").document["views"]

    assert (view["view"], view["applied"], view["lag"], view["fits"]) == ("Totals", 5, 1, "yes")
    ran("create", "orders", "--url", "file:other")
    assert run("views", "totals.snapshot", "--url", "file:other").code == 2
    (folder / "torn").write_bytes((folder / "totals.snapshot").read_bytes()[:-1])
    assert run("views", "torn").code == 10


@pytest.mark.slow
def test_tables_name_the_unit_of_an_age_and_are_left_out_where_empty(orders: str) -> None:
    (header, row) = ran("retention", orders, "--age", "2d").stdout.splitlines()

    assert "age, s" in header
    assert f"{2 * 86_400:,}" in row
    assert ran("quota").stdout == "no quota is set\n"


def test_a_bad_tenant_has_no_quota_to_show(orders: str) -> None:
    refused = run("quota", "a/b")

    assert (refused.code, refused.stdout) == (2, "")
    assert "a tenant name has only" in refused.stderr
    assert ran("quota", "acme").stdout == "no quota is set\n"


def test_doctor_looks_at_everything_and_says_what_to_do() -> None:
    shown = ran("doctor", "--json").document

    found = {each["check"]: each for each in shown["checks"]}
    assert shown["is_healthy"]
    assert {"python", "pyarrow", "sqlite", "file system", "inotify", "java", "pyspark"} <= set(
        found
    )
    assert found["python"]["verdict"] == "ok"
    assert all(each["advice"] for each in found.values() if each["verdict"] != "ok")
    assert "verdict" in ran("doctor").stdout


def test_doctor_finds_the_client_of_each_extra() -> None:
    brought = importlib.metadata.requires("strandline") or []
    named = {re.match(r"[\w.-]+", each)[0] for each in brought}  # type: ignore[index] # It matches.
    clients = {"confluent-kafka", "duckdb", "nats-py", "obstore", "psycopg", "pyspark", "rich"}

    found = {each["check"]: each["verdict"] for each in ran("doctor", "--json").document["checks"]}

    assert clients <= named
    assert {each: found.get(each) for each in clients} == dict.fromkeys(clients, "ok")


def test_doctor_shows_a_path_that_is_no_utf_8(tmp_path: Path) -> None:
    shown = run("doctor", "--path", f"{tmp_path}/{os.fsdecode(bytes([0xFF]))}", "--json")

    assert "is_healthy" in json.loads(shown.stdout)


@pytest.mark.parametrize(
    ("kind", "free", "verdicts"),
    [
        ("nfs4", 1 << 40, {"file system": CheckResult.FAILED, "space": CheckResult.OK}),
        ("tmpfs", 1 << 20, {"file system": CheckResult.WARNING, "space": CheckResult.WARNING}),
        ("ext4", 1 << 40, {"file system": CheckResult.OK, "space": CheckResult.OK}),
    ],
)
def test_doctor_knows_what_a_file_system_is_good_for(
    kind: str, free: int, verdicts: dict[str, CheckResult]
) -> None:
    place = LogPlace("here", FileSystem(kind, free, is_writable=True), InotifyLimits(64, 4))

    found = {each.check: each for each in look(place)}

    assert {name: found[name].verdict for name in verdicts} == verdicts
    assert found["inotify"].verdict is CheckResult.WARNING
    assert "sysctl" in found["inotify"].advice
    assert is_healthy(found.values()) == (CheckResult.FAILED not in verdicts.values())


@pytest.mark.slow
def test_bench_measures_and_leaves_nothing_behind(folder: Path) -> None:
    shown = ran("bench", "--seconds", "0.01", "--json").document

    assert [each["name"] for each in shown["measured"]] == [
        "append, written",
        "append, durable",
        "append_many of 1,000, written",
        "replay as records",
        "replay as Arrow",
    ]
    assert all(each["per_second"] > 0 for each in shown["measured"])
    assert list(folder.iterdir()) == []
    assert "make bench" in run("bench", "--full").stderr
    assert "results.json" in run("bench", "--full", "--json").stderr


@pytest.mark.slow
def test_every_backend_answers_alike(folder: Path) -> None:
    for url in ("file:./a", "sqlite:./b"):
        ran("create", "orders", "--url", url)
        ran("append", "orders", "1", "--kind", "a", "--url", url)
        assert len(ran("read", "orders", "--url", url, "--json").lines) == 1
        assert ran("describe", "--url", url, "--json").document["records"] == 1
    assert run("topics", "--url", "memory:").code == 2


def test_the_url_may_come_from_the_environment(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRANDLINE_URL", "sqlite:here.db")

    ran("create", "orders")

    assert (folder / "here.db").exists()
    with sl.open("sqlite:here.db") as log:
        assert [each.name for each in log.topics()] == ["orders"]


@pytest.mark.slow
def test_damage_is_reported_with_its_own_exit_code(orders: str, folder: Path) -> None:
    shutil.copytree(".strandline", "damaged")
    [manifest] = Path("damaged").rglob("*.manifest")
    manifest.write_bytes(b"strandline manifest 1 00000000\n{}")

    done = run("read", orders, "--url", "file:damaged/events", "--json")

    assert done.code == 10


@pytest.mark.parametrize("scheme", ["file", "sqlite"])
def test_holders_are_the_processes_that_write_and_consume(scheme: str) -> None:
    url = f"{scheme}:held"
    with sl.open(url) as log:
        log.create_topic("orders", partitions=2)
        log.append("orders", sl.Event("placed"), partition=1)
        with log.consumer("orders", "billing", partitions=[0]):
            held = ran("holders", "--url", url, "--json").document["holders"]
            shown = ran("holders", "--url", url).stdout
    gone = ran("holders", "--url", url, "--json").document["holders"]

    found = {(each["role"], each["topic"], each["partition"], each["name"]) for each in held}
    place = ("orders", 1) if scheme == "file" else (None, None)
    assert ("writer", *place, "") in found
    assert ("consumer", "orders", 0, "billing") in found
    assert {each["pid"] for each in held} == {os.getpid()}
    assert all(each["is_live"] and each["since"] and each["host"] for each in held)
    assert "billing" in shown
    assert str(os.getpid()) in shown
    assert [each["role"] for each in gone if each["role"] == "consumer"] == []
