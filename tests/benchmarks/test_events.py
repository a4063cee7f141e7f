"""One event, as every entry writes it."""

from statistics import mean

import msgspec

from benchmarks.events import made_again, samples
from strandline.values import Event


def test_the_same_seed_gives_the_same_events() -> None:
    assert samples(100) == samples(200)[:100]
    assert samples(100) != samples(100, seed=1)


def test_an_event_has_two_headers_and_about_200_bytes_of_payload() -> None:
    events = samples(1_000)

    sizes = [len(msgspec.json.encode(event.payload)) for event in events]
    assert 180 <= mean(sizes) <= 220
    assert {len(event.headers) for event in events} == {2}


def test_traffic_varies() -> None:
    events = samples(1_000)

    assert len({event.kind for event in events}) == 4
    assert 20 < len({event.key for event in events}) < 1_000
    times = [event.occurred_at_us for event in events]
    assert times == sorted(set(times))


def test_the_library_takes_every_event() -> None:
    for sample in samples(1_000):
        event = Event(sample.kind, sample.payload, key=sample.key, headers=sample.headers)

        assert event.payload == sample.payload


def test_events_made_again_are_equal_and_not_the_same() -> None:
    events = samples(10)

    first, second = made_again(events, 2)

    assert first == second == events
    assert not {id(event.payload) for event in first} & {id(event.payload) for event in second}
