"""Long seeded runs of what `make test` runs in slices: `make torture SEED=1 SECONDS=600`."""
