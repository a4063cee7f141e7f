"""Decoders decode their input, or raise one of our errors."""

import random
from pathlib import Path

import pytest

from tests.fuzzing import Decoder, Guided, decoders


@pytest.mark.slow
def test_each_decoder_reads_or_refuses_what_it_is_given(tmp_path: Path) -> None:
    seed = random.randrange(10**6)
    print("seed", seed)  # noqa: T201 - What repeats a failure.
    for decoder in decoders(tmp_path):
        Guided(decoder).run(50, random.Random(seed))


def test_an_input_that_is_neither_read_nor_refused_is_shown() -> None:
    with pytest.raises(AssertionError, match="texts: UnicodeDecodeError"):
        Guided(Decoder("texts", b"\xff", lambda given: given.decode("ascii")))
