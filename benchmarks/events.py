"""One event, as every entry writes it: about 290 bytes as a JSON array.

A kind, a key, about 200 bytes of JSON payload, two headers and a time. The
generator is seeded: each run, on each machine, writes the same events.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from random import Random
from typing import NamedTuple

import msgspec

SEED = 20_260_101
START_US = 1_767_225_600_000_000
KEYS = 100_000

Payload = dict[str, object]


class Sample(NamedTuple):
    """An event in the plain objects of a Python program that has no library for it.

    A tuple, since that is what msgspec encodes with the least work.
    """

    kind: str
    key: str
    payload: Payload
    headers: dict[str, str]
    occurred_at_us: int


def samples(count: int, seed: int = SEED) -> list[Sample]:
    """Return the first `count` events of the stream of this seed."""
    return list(islice(_stream(Random(seed)), count))


def made_again(events: list[Sample], times: int) -> Iterator[list[Sample]]:
    """Yield the same events `times` times, as new objects each time.

    A program writes an event that it has just created, and writes it once. The events of one
    long list would no longer be in the processor's caches when they are written; for those of
    one short list, Python would have cached the UTF-8 of each text. Either would distort the
    cost of encoding.
    """
    encoded = msgspec.json.encode(events)
    decoder = msgspec.json.Decoder(list[Sample])
    for _ in range(times):
        yield decoder.decode(encoded)


def _stream(rng: Random) -> Iterator[Sample]:
    at_us = START_US
    makers = list(_MAKERS.items())
    weights = [weight for weight, _ in _MAKERS.values()]
    while True:
        # Few keys get most of the events.
        at_us += 1 + int(rng.expovariate(1 / 500))
        key = f"customer-{int(rng.paretovariate(0.5)) % KEYS:05}"
        ((kind, (_, make)),) = rng.choices(makers, weights)
        headers = {
            "trace": f"{rng.getrandbits(64):016x}",
            "source": rng.choice(("web", "app", "store", "batch")),
        }
        yield Sample(kind, key, make(rng), headers, at_us)


def _order(rng: Random) -> Payload:
    lines = [
        {"sku": f"{rng.choice('ABCD')}-{rng.randrange(10_000):04}", "quantity": rng.randint(1, 9)}
        for _ in range(rng.choice((1, 2, 2, 3)))
    ]
    return {
        "order": rng.randrange(10**9),
        "lines": lines,
        "total": round(rng.lognormvariate(4, 1), 2),
        "currency": rng.choice(("EUR", "USD", "SEK")),
        "note": _sentence(rng, 60),
    }


def _payment(rng: Random) -> Payload:
    return {
        "payment": f"{rng.getrandbits(96):024x}",
        "order": rng.randrange(10**9),
        "amount_cents": int(rng.lognormvariate(8, 1)),
        "captured": rng.random() < 0.9,
        "failure": None if rng.random() < 0.95 else "insufficient funds",
        "reference": _sentence(rng, 80),
    }


def _page(rng: Random) -> Payload:
    path = "/".join(rng.choices(_WORDS, k=rng.randint(2, 5)))
    return {
        "url": f"https://shop.example/{path}?page={rng.randrange(40)}",
        "session": f"{rng.getrandbits(128):032x}",
        "seconds": round(rng.expovariate(1 / 30), 3),
        "agent": _sentence(rng, 70),
    }


def _reading(rng: Random) -> Payload:
    return {
        "sensor": f"cold-store-{rng.randrange(64):02}",
        "celsius": [round(rng.gauss(-18, 2), 2) for _ in range(rng.randint(4, 10))],
        "door_open": rng.random() < 0.05,
        "battery": round(rng.random(), 3),
        "site": _sentence(rng, 85),
    }


def _sentence(rng: Random, length: int) -> str:
    """Return words of about `length` characters in all, some of them not ASCII."""
    wanted = int(rng.triangular(length / 2, length * 1.5))
    words: list[str] = []
    while wanted > 0:
        words.append(rng.choice(_WORDS))
        wanted -= len(words[-1]) + 1
    return " ".join(words)


# Kind → its frequency, and the function that makes its payload.
_MAKERS: dict[str, tuple[int, Callable[[Random], Payload]]] = {
    "page.viewed": (50, _page),
    "order.placed": (20, _order),
    "payment.made": (20, _payment),
    "temperature.read": (10, _reading),
}

_WORDS = (
    *("harbour", "lantern", "oat", "winter", "blue", "copper", "small", "gate", "delivery"),
    *("please", "ring", "twice", "linen", "fresh", "north", "quay", "smörgås", "café", "seven"),
)
