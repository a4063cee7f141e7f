"""What the URL of a log names, and which are refused."""

from pathlib import Path

import pytest

from strandline.values import InvalidError, LogUrl, parse_log_url


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("memory:", ("memory", "")),
        ("file:events", ("file", "events")),
        ("file:./a b%20c?d#e", ("file", "./a b%20c?d#e")),
        ("file:/var/events", ("file", "/var/events")),
        ("file:///var/events", ("file", "/var/events")),
        ("file:///var/a%20b%25", ("file", "/var/a b%")),
        ("file:./~", ("file", "./~")),
        ("sqlite:events.db", ("sqlite", "events.db")),
        ("sqlite:/var/events.db", ("sqlite", "/var/events.db")),
        ("sqlite:///events.db", ("sqlite", "events.db")),
        ("sqlite:////var/events.db", ("sqlite", "/var/events.db")),
    ],
)
def test_a_url_names_one_place(url: str, named: tuple[str, str]) -> None:
    assert parse_log_url(url) == LogUrl(*named)


def test_the_uri_of_a_path_names_that_path(tmp_path: Path) -> None:
    folder = tmp_path / "a b%20c#d?e"

    assert parse_log_url(folder.as_uri()).path == str(folder)


@pytest.mark.parametrize(
    ("url", "advice"),
    [
        ("file:~/events", "expanduser"),
        ("file:~another/events", "expanduser"),
        ("sqlite:~/events.db", "expanduser"),
        ("sqlite:///~/events.db", "expanduser"),
        ("file://events", "file:PATH for a relative path or file:///PATH"),
        ("file://server/share/events", "is followed by a host"),
        ("sqlite://events.db", "sqlite:///RELATIVE or sqlite:////ABSOLUTE"),
        ("sqlite://", "is followed by a host"),
        ("sqlite::memory:", "memory:"),
        ("sqlite:///:memory:", "memory:"),
        ("sqlite:file:events.db?mode=memory", "sqlite:PATH"),
        ("sqlite:///events.db?mode=ro", "options"),
        ("file:///events#part", "options"),
        ("file:events?mode=ro", "pass mode"),
        ("sqlite:events.db?mode=ro&cache=shared", "pass mode"),
        ("file:", "path is missing"),
        ("file:///", "path is missing"),
        ("sqlite:", "path is missing"),
        ("sqlite:///", "path is missing"),
        ("file:a\0b", "NUL"),
        ("file:///a%00b", "NUL"),
        ("memory:name", "memory: alone"),
        ("memory://", "memory: alone"),
        ("redis:x", "no such kind"),
        ("events", "a log is named"),
        (7, "a log is named"),
    ],
)
def test_a_url_that_would_make_files_in_surprising_places_is_refused_with_advice(
    url: object, advice: str
) -> None:
    with pytest.raises(InvalidError) as caught:
        parse_log_url(url)

    assert advice in str(caught.value)
    assert caught.value.fields["url"] == url
