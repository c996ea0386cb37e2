# `make reproduce` does the main job, `make test` checks everything; both set up .venv first.
PYTHON ?= python3
BIN := .venv/bin
SETUP := .venv/.complete

.PHONY: setup test reproduce lint bench clean

setup: $(SETUP)

$(SETUP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	$(BIN)/pip install --quiet --constraint constraints.txt --editable . --group dev
	touch $@

test: $(SETUP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m pytest

reproduce: $(SETUP)
	$(BIN)/lrp-axioms reproduce $(ARGS)

lint: $(SETUP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

bench: $(SETUP)
	$(BIN)/python -m pytest benchmarks --benchmark-enable --benchmark-only

clean:
	rm -rf .venv results
