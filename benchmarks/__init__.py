"""Measures Strandline beside what a careful user might take instead.

`make bench` measures every entry of the catalogue, prints a table, writes
results.json after each of them, and ends with the bars that fall short. `ONLY=coordinator` measures
the entries whose names begin so and keeps the others; `BARS=strict` makes a
bar that falls short an error.

To add an entry, add an `Entry` to those of its family's module; a new family is
one module, named in the catalogue. Only ratios count, since machines are noisy:
whatever is compared is measured in turns, in one run. The peers and their settings
are in `stores`, and how much a round does is in `sizes`.
"""
