PYTHON ?= python3
VENV_PYTHON := .venv/bin/python
CHOSEN := $(if $(filter file,$(origin PYTHON)),,--chosen)
SETUP := "$(PYTHON)" -I -X utf8 tools/setup_env.py $(CHOSEN)
# tests/scheduling.py keeps tests together that share something.
PYTEST := $(VENV_PYTHON) -m pytest -n auto --maxprocesses 4 --max-worker-restart 2
# Tests of pages that are made from the code and from stored figures.
GENERATED := tests/docs/test_api_pages.py tests/docs/test_cli_page.py \
	tests/docs/test_benchmark_table.py tests/test_torture_counts.py
ANALYSER := tests/core/test_building.py::test_the_static_analyser_finds_nothing
TREES := src tests tools benchmarks examples torture conftest.py

# Without bytecode each Python that Spark starts compiles all of its libraries again.
unexport PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE
export PYTHONUTF8 := 1
export PYTHONNOUSERSITE := 1
export TMPDIR := $(CURDIR)/.tmp
export NO_MKDOCS_2_WARNING := 1

ifdef ONLY
export STRANDLINE_BENCH_ONLY := $(ONLY)
export STRANDLINE_TORTURE_ONLY := $(ONLY)
endif
ifdef BARS
export STRANDLINE_BENCH_BARS := $(BARS)
endif
ifdef SEED
export STRANDLINE_TORTURE_SEED := $(SEED)
endif
ifdef SECONDS
export STRANDLINE_TORTURE_SECONDS := $(SECONDS)
endif

define HELP
Strandline: a durable, replayable event log.

  make demo        a day of a shop, end to end, 90 s     DEMO_EVENTS=20000  DEMO_URL=postgresql://…
  make test-fast   each rule briefly, 90 s        ARGS="-k receipt" passes options to pytest, -n0 runs one by one
  make test        the suite, 12 min              ARGS as above
  make test-all    make test, then make test-rest: what is marked heavy, and other Pythons
  make test-pythons  fast tests with the oldest and the newest Python here
  make test-lowest fast tests with the oldest packages that are allowed
  make coverage    which branches the fast tests take
  make lint        format, lint, types, imports, spelling, layout, words, C, pages
  make format      ruff's formatter and automatic fixes
  make pages       write the pages that are made from the code and from stored figures
  make bench       measure and compare            ONLY=coordinator  BARS=strict
  make torture     long seeded runs, for hours    SECONDS=600 divides the time  SEED=1  ONLY=schedules
  make mutants     mutation tests                 SECONDS=600  AGAIN=survivors
  make docs        build the pages into .cache/site
  make release     build the packages into dist/ and check them; publishes nothing
  make lock        write requirements/ from pyproject.toml    UPGRADE=1 takes newest versions
  make clean       remove .venv, caches and scratch files

Each target prepares .venv by itself: python3 (3.11 or newer) and make are enough.
PYTHON=python3.12 chooses another Python.
endef

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-fast test-all test-rest test-heavy test-pythons test-lowest coverage lint format pages bench torture mutants docs \
	release lock clean

help:
	$(info $(HELP))
	@:

setup:
	@$(SETUP)

demo: setup
	@$(VENV_PYTHON) -m examples.demo

test: setup
	@$(PYTEST) -m "not heavy" $(ARGS)

test-fast: setup
	@$(PYTEST) -m "not slow and not heavy" $(ARGS)

test-all:
	@$(MAKE) --no-print-directory test
	@$(MAKE) --no-print-directory test-rest

# Tests that take too long for make test, or need engines, servers or browsers.
test-rest:
	@$(MAKE) --no-print-directory test-heavy
	@$(MAKE) --no-print-directory test-pythons

test-heavy: setup
	@$(PYTEST) -m heavy $(ARGS)

test-pythons: setup
	@$(VENV_PYTHON) -m tools.other_pythons $(ARGS)

test-lowest: setup
	@$(VENV_PYTHON) -m tools.lowest $(ARGS)

# The scheduler of tests/model and the sweeps of interrupts use the trace function themselves.
coverage: setup
	@rm -rf .cache/coverage
	@$(VENV_PYTHON) -m coverage run -m pytest -n auto --maxprocesses 4 -q \
		-m "not slow and not heavy" --ignore tests/model --ignore tests/writes/test_interrupts.py $(ARGS)
	@$(VENV_PYTHON) -m coverage combine --quiet
	@$(VENV_PYTHON) -m coverage report > .cache/coverage.txt
	@tail -n 1 .cache/coverage.txt

lint: setup
	$(VENV_PYTHON) -m ruff format --check $(TREES) || { echo 'Run make format.'; exit 1; }
	$(VENV_PYTHON) -m ruff check $(TREES)
	$(VENV_PYTHON) -m mypy $(TREES)
	.venv/bin/lint-imports --no-logo --cache-dir .cache/import-linter
	.venv/bin/codespell $(TREES) docs *.md mkdocs.yml
	$(VENV_PYTHON) -m pytest -q -m "" tests/test_layout.py tests/test_words.py $(ANALYSER) $(GENERATED)

# Formatting first: it shortens lines that the checks would reject.
format: setup
	$(VENV_PYTHON) -m ruff format $(TREES)
	$(VENV_PYTHON) -m ruff check --fix $(TREES)
	$(VENV_PYTHON) -m ruff format $(TREES)

pages: setup
	$(VENV_PYTHON) -m tools.api_pages
	$(VENV_PYTHON) -m tools.cli_page
	$(VENV_PYTHON) -m tools.http_page
	$(VENV_PYTHON) -m tools.benchmark_table
	$(VENV_PYTHON) -m tools.torture_table

bench: setup
	@$(VENV_PYTHON) -m benchmarks

torture: setup
	@$(VENV_PYTHON) -m torture

mutants: setup
	@STRANDLINE_CORE=off STRANDLINE_MUTANTS_AGAIN=$(AGAIN) $(VENV_PYTHON) -m torture.mutants quick
	@$(VENV_PYTHON) -m torture.mutants core
	@$(VENV_PYTHON) -m torture.mutants rest

docs: setup
	@$(VENV_PYTHON) -m mkdocs build --strict

release: setup
	@$(VENV_PYTHON) -m tools.release $(ARGS)

lock:
	@$(SETUP) --lock $(if $(UPGRADE),--upgrade)

clean:
	rm -rf .venv .cache .tmp dist
