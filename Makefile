# `make reproduce` does the main job, `make test` checks everything; both set up .venv first.
PYTHON ?= python3
BIN := .venv/bin
SETUP := .venv/.complete
ENOUGH := import sys; sys.version_info >= (3, 11) or sys.exit("Python 3.11 or newer is needed")

.PHONY: setup lock reproduce paper notebooks docs pages pictures test test-fast fuzz versions lint audit bench baseline mutants clean

setup: $(SETUP)

# Compares all packages with the hashes in requirements.lock, except torch and its own requirements:
# some package indexes offer a smaller CPU build of the pinned version of torch.
$(SETUP): pyproject.toml constraints.txt requirements.lock
	$(PYTHON) -c '$(ENOUGH)'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/pip install --quiet --no-deps --require-hashes --requirement requirements.lock
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	$(BIN)/pip check
	touch $@

# Writes requirements.lock after a change of constraints.txt or pyproject.toml, with the hashes of
# every file of each package, for every platform.
lock:
	$(PYTHON) -m venv build/lock
	build/lock/bin/pip install --quiet uv
	echo "torch; python_version < '3'" | build/lock/bin/uv pip compile --quiet --universal \
		--python-version 3.11.5 --generate-hashes --no-annotate --no-header \
		--constraint constraints.txt --override - --extra paper --group dev pyproject.toml \
		--output-file requirements.lock

# Options go into ARGS: make reproduce ARGS="--examples 50"
reproduce: $(SETUP)
	$(BIN)/lrp-axioms reproduce --full $(ARGS)

# Table 2, Figure 2, [CLS] and [SEP], and §3.2 with the paper's two checkpoints from the Hub, beside the
# paper's numbers; the forecasts of both come first.  make paper REVIEWS=20 ARGS="--curves --device cuda"
REVIEWS := 200
PAPER = $(BIN)/lrp-axioms reproduce table2 figure2 special softmax --model paper --full $(ARGS)
SST2 := --dataset sst2 --output results/paper/sst2
IMDB := --dataset imdb --output results/paper/imdb --examples $(REVIEWS)
paper: $(SETUP)
	$(PAPER) $(SST2) --forecast
	$(PAPER) $(IMDB) --forecast
	$(PAPER) $(SST2)
	$(PAPER) $(IMDB)
	$(BIN)/lrp-axioms report results/paper

# The paper's models and data from the Hub, for hours: make notebooks ARGS="03_table2_sst --help"
notebooks: $(SETUP)
	$(BIN)/python -m paper_notebooks.build $(ARGS)

# The site of the documentation, in build/site; any warning is an error.
docs: $(SETUP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict $(ARGS)

# Writes every page, and every table of a page, that a command makes; each says which.  Takes half an
# hour, most of it for docs/MODELS.md.  One alone: make pages PAGES="axioms.pages.scoreboard"
PAGES := website.catalogue axioms.pages.scoreboard website.axiom_table website.literature \
	tests.census.operations tests.census.methods tests.census
pages: $(SETUP)
	set -e; for page in $(PAGES); do $(BIN)/python -m $$page; done

# The pictures of README and docs, from the embedded model; takes minutes.
# One alone: make pictures ARGS="tradeoff"
pictures: $(SETUP)
	$(BIN)/python -m website.pictures $(ARGS)

# A process per core, each with one thread: the tests multiply small matrices.
test: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --dist worksteal $(ARGS)

# The rules of every layer, that the layers agree, and what the program reads: in a minute.
FAST := symbolic_rules composites evaluate reference_rules reference layers_agree \
	fast_matches_reference attribute evaluate_by_hand correlation data rows
FAST := axioms/theorems/test_attention.py $(FAST:%=tests/*/test_%.py)
test-fast: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --dist worksteal $(FAST) $(ARGS)

# Changes files of every format in many more ways than `make test`, and tests hooks and copies on every
# architecture; takes an hour.
FUZZED := tests/project/test_garbled_files.py tests/methods/test_every_architecture.py
fuzz: $(SETUP)
	OMP_NUM_THREADS=1 LRP_AXIOMS_EXAMPLES=5000 $(BIN)/python -m pytest $(FUZZED) $(ARGS)

# The same tests with the least and the newest versions of what the package needs.
versions: $(SETUP)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.support.versions $(FAST) $(ARGS)

LAYERS := axioms benchmarks numeric lrp_axioms/__init__.py lrp_axioms/short_names.py
lint: $(SETUP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	mkdir -p build/types/lrp_axioms # the layers where mypy finds them
	ln -sfn $(LAYERS:%=$(CURDIR)/%) build/types/lrp_axioms
	$(BIN)/mypy
	$(BIN)/python -m tests.support.sentences
	@$(MAKE) --no-print-directory audit

# Known weaknesses of the pinned packages, where the service that knows them can be reached.
OSV := import requests; requests.head("https://api.osv.dev", timeout=5)
audit: $(SETUP)
	@if $(BIN)/python -c '$(OSV)' 2>/dev/null; then \
		$(BIN)/pip-audit --vulnerability-service osv --no-deps --disable-pip -r constraints.txt; \
	else echo "pip-audit is left out: https://api.osv.dev cannot be reached"; fi

# Ratios of time and memory against benchmarks/baseline.json, on an idle machine, for about
# two hours.  Parts alone: make bench ARGS="-k sweep"
bench: $(SETUP)
	$(BIN)/python -m pytest benchmarks/research/speed --benchmark-enable $(ARGS)

# The same, and what was measured becomes the baseline and benchmarks/RESULTS.md.
baseline: $(SETUP)
	$(BIN)/python -m pytest benchmarks/research/speed --benchmark-enable --update-baseline $(ARGS)

# Every small change of the rules, and of what decides and searches, must be noticed by a test;
# takes hours.  Files alone: make mutants ARGS="axioms/decide/identity.py"
mutants: $(SETUP)
	$(BIN)/python -m tests.support.mutation $(ARGS)

clean:
	rm -rf .venv results
