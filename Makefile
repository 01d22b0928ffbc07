# `make test` and `make check` set themselves up: the environment is made once, and again only when the files that
# describe it change.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := pyproject.toml constraints.txt

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-statistical test-hostile test-cluster test-programs test-slow check package format bench bench-quick bench-parts experiments experiments-digits docs docs-serve docs-names bounds clean

help:  ## list what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

# Python compiles what it imports; compiling the 20 000 files of all libraries in advance would take a minute.
INSTALL := PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile \
	-c constraints.txt

# One stamp per set of extras, so that the demo does not wait for the linters.
$(VENV)/.installed-%: $(SOURCES)
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) -e '.[$*]'
	@touch $@

# All extras that CI needs, in one go.
setup: $(SOURCES)  ## set up everything for development
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) -e '.[test,check,bench,browser,docs]'
	@touch $(addprefix $(VENV)/.installed-,digits test check bench browser docs)

demo: $(VENV)/.installed-digits  ## set up, train on digits, certify in four ways, compare
	$(BIN)/lvmrs demo

# Each process of pytest has one core: torch with more threads than cores is many times slower.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest
# The files that have tests with a mark, so that no others are imported.
MARKED = $(shell grep -rlE --include='*.py' '^(@|pytestmark = | +)pytest\.mark\.$(1)' tests)

test: $(VENV)/.installed-test  ## set up and run the tests
	$(PYTEST) -n auto

test-statistical: $(VENV)/.installed-test  ## count false bounds and certificates by simulation
	$(PYTEST) -n auto -m 'statistical and not slow' tests/statistical $(call MARKED,statistical)

test-hostile: $(VENV)/.installed-test  ## bad input, damaged files and kills, by the thousand
	$(PYTEST) -n auto -m 'hostile and not slow' tests/hostile

test-cluster: $(VENV)/.installed-test  ## runs on a Ray cluster and a Slurm that are started here; Slurm, munge and root are needed
	$(PYTEST) -m 'cluster and not slow' $(call MARKED,cluster)

test-programs: $(VENV)/.installed-test $(VENV)/.installed-browser  ## tests with chromium, chromedriver and pdflatex, which must be there
	$(PYTEST) -m programs $(call MARKED,programs)

test-slow: $(VENV)/.installed-test  ## the tests that take minutes
	$(PYTEST) -n auto -m 'slow and not cluster'
	$(PYTEST) -m 'slow and cluster' $(call MARKED,cluster)

check: $(VENV)/.installed-test $(VENV)/.installed-check $(VENV)/.installed-bench $(VENV)/.installed-browser  ## lint, format, types and the import rule
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

package: $(VENV)/.installed-check  ## build wheel and sdist, install the wheel into a clean environment and use it
	$(BIN)/python tools/check_package.py

format: $(VENV)/.installed-check  ## rewrite the sources as `make check` wants them
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.installed-bench  ## speed, side by side with other software: the tables of docs/speed.md, on an idle machine
	$(BIN)/python benchmarks/speed.py --write docs/speed.md

bench-quick: $(VENV)/.installed-bench  ## try out what `make bench` does, with few samples
	$(BIN)/python benchmarks/speed.py --quick --json build/bench-quick.json

bench-parts: $(VENV)/.installed-bench  ## smaller benchmarks: the sweep, bounds, noise, tables of many rows
	$(BIN)/python benchmarks/sweep.py
	$(BIN)/python benchmarks/betting_speed.py
	$(BIN)/python benchmarks/certify.py
	$(BIN)/python benchmarks/noise.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/model_check.py
	$(BIN)/python benchmarks/analyze.py
	$(BIN)/python benchmarks/report.py
	$(BIN)/python benchmarks/many_classes.py
	$(BIN)/python benchmarks/sandwich.py

# What else to include: DATA='--cifar10 FILE.npz --imagenet FOLDER', and for the published settings SCALE=paper.
SCALE ?= laptop
experiments: $(VENV)/.installed-test $(VENV)/.installed-experiments  ## every table of the paper again, with DATA=... if given: docs/results.md
	$(BIN)/python experiments/all.py --scale $(SCALE) $(DATA)

experiments-digits: $(VENV)/.installed-test  ## try out what `make experiments` does, in two minutes
	$(BIN)/python experiments/all.py --scale digits --cache build/experiments-digits --results build/experiments-digits/results

docs: $(VENV)/.installed-docs  ## build the site into build/site: run the tutorials, check all links
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx --fail-on-warning --keep-going docs build/site

docs-serve: docs  ## build the site and serve it at http://127.0.0.1:8000
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory build/site 8000

docs-names: $(VENV)/.installed-test  ## write again what the docs take from the code: names, and the schema of exported runs
	LVMRS_GOLDEN=write $(PYTEST) tests/test_names_page.py tests/analysis/test_export.py

bounds: $(VENV)/.installed-bench  ## the tables of docs/bounds.md
	$(BIN)/python benchmarks/bounds.py --write docs/bounds.md

clean:  ## remove the environment and all caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache dist build
