PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.stamp
WORKERS ?= 3 # of the tests: many wait for other processes, so that one more than two cores keeps these busy
ROOT := $(if $(filter 0,$(shell id -u)),,sudo -n)

# Tests of one file go to one worker, which makes what they share once
PYTEST := $(BIN)/pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder

version = $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)

.PHONY: help demo paper test test-all browser linters check build docs docs-links bench clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile

demo: $(STAMP) ## see the method at work
	$(BIN)/degroot demo

paper: $(STAMP) ## reproduce the paper; DATA=DIR for data sets that cannot be installed
	$(BIN)/degroot paper $(if $(DATA),--data $(DATA))

test: $(STAMP) ## run the tests and the examples in the docstrings
	$(PYTEST)

test-all: $(STAMP) browser linters ## run the slow tests too
	$(PYTEST) -m ""

browser: $(STAMP) ## what the tests of the node's page need: playwright, axe and chromium
	@$(BIN)/python -c 'import axe_playwright_python, playwright' 2>/dev/null \
		|| $(BIN)/pip install --disable-pip-version-check -q -e '.[browser]' -c constraints.txt
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null \
		|| { $(ROOT) apt-get update -qq && $(ROOT) apt-get install -y -qq chromium; } \
		|| echo "There is no chromium and apt-get cannot install it here: the tests of the node's page will be skipped. Try: apt-get install chromium"

linters: $(STAMP) ## what the tests of the files in deploy/ need: hadolint, kubernetes-validate and promtool
	@$(BIN)/python -c 'import kubernetes_validate' 2>/dev/null && test -x $(BIN)/hadolint \
		|| $(BIN)/pip install --disable-pip-version-check -q -e '.[linters]' -c constraints.txt
	@command -v promtool >/dev/null || test -x $(BIN)/promtool \
		|| { cd .venv && apt-get download -q prometheus && dpkg-deb --fsys-tarfile prometheus_*.deb | tar -xO ./usr/bin/promtool > bin/promtool \
			&& chmod +x bin/promtool && rm prometheus_*.deb; } \
		|| echo "There is no promtool and apt-get cannot bring it here: a test of the alert rules will be skipped. Try: apt-get install prometheus"

check: $(STAMP) ## style, types and import layers
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

build: $(STAMP) ## make the wheel and the sdist: dist/
	DEGROOT_KERNEL_LEVELS=all $(BIN)/python -m build -o dist .

docs: $(STAMP) ## build the documentation and run its examples: build/docs/index.html; DATA=DIR as for paper
	rm -rf build/docs docs/examples
	$(if $(DATA),DEGROOT_DATA=$(abspath $(DATA))) $(BIN)/sphinx-build -q -W --keep-going docs build/docs
	$(BIN)/python docs/links.py build/docs

docs-links: $(STAMP) ## try the links of the documentation to other sites; needs the internet
	$(BIN)/sphinx-build -q -W --keep-going -b linkcheck docs build/docs-links

bench: $(STAMP) browser ## measure speed, start, accuracy, settings, mixed tables, intervals, attacks, nodes, leaks, maps, the page and scale; DATA=DIR as for paper
	$(BIN)/python benchmarks/bench.py
	$(BIN)/python benchmarks/start.py
	$(BIN)/python benchmarks/accuracy.py $(if $(DATA),--data $(DATA))
	$(BIN)/python benchmarks/choosing.py
	$(BIN)/python benchmarks/tables.py
	$(BIN)/python benchmarks/asker.py
	$(BIN)/python benchmarks/attacks.py
	$(BIN)/python benchmarks/intervals.py $(if $(DATA),--data $(DATA))
	$(BIN)/python benchmarks/nodes.py
	$(BIN)/python benchmarks/ledger.py
	$(BIN)/python benchmarks/leaks.py
	$(BIN)/python benchmarks/maps.py
	$(BIN)/python benchmarks/page.py
	$(BIN)/python benchmarks/batch.py
	$(BIN)/python benchmarks/large.py
	$(BIN)/python benchmarks/scale.py

clean: ## remove the virtual environment, caches and builds
	rm -rf .venv .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist
	find . -name __pycache__ -prune -exec rm -rf {} +

$(STAMP): pyproject.toml constraints.txt
	$(if $(filter 3.11 3.12 3.13 3.14,$(version)),,$(error degroot needs Python 3.11 to 3.14; $(PYTHON) is $(or $(version),missing). Try: make PYTHON=python3.12))
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --disable-pip-version-check -q -e '.[dev]' -c constraints.txt
	@touch $@
