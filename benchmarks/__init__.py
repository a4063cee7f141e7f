"""Measures Strandline side by side with what a careful user might use instead.

`make bench` measures every entry of the catalogue, prints a table, writes
results.json after each of them, and ends with the bars that were not reached.
`ONLY=coordinator` measures the entries whose names begin so and keeps the others;
`BARS=strict` makes a bar that was not reached an error.

To add an entry, add an `Entry` to those of its family's module; a new family is
one module, named in the catalogue. Only ratios count, since machines are noisy:
contenders are measured in alternation, in one run. The peers and their settings
are in `stores`, and how much a round does is in `sizes`.
"""
