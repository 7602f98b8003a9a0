# One command each. Every target sets up .venv when it is missing or older than what it is made from.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
WORKERS ?= 2
# Compiled code is kept: without it a node takes twice as long to start.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup demo test check interop interop-quick soak mutants bench wheel docs clean

help: ## what there is
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

setup: $(STAMP) ## make .venv with everything, and .venv/bin/tidelog; Java for Spark where it may

$(STAMP): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@$(BIN)/python tools/java.py
	@touch $(STAMP)

demo: $(STAMP) ## the whole story in about a minute
	$(BIN)/tidelog demo

test: $(STAMP) ## everything that needs a package index only
	$(BIN)/pytest tests -m "not interop" -n $(WORKERS)

check: $(STAMP) ## format, lint, types, import contracts, numbered rules, prose
	$(BIN)/ruff format --check --quiet src tests benchmarks tools examples
	$(BIN)/ruff check --quiet src tests benchmarks tools examples
	$(BIN)/mypy
	$(BIN)/lint-imports --config .importlinter --no-logo --no-cache
	$(BIN)/python tools/rules.py
	$(BIN)/python tools/prose.py --check

interop: $(STAMP) ## what needs more: Kafka's own tools, kcat, a browser
	$(BIN)/pytest tests/interop tests/guide -m interop -n $(WORKERS)

interop-quick: $(STAMP) ## one test or more of make interop for each client, tool and browser
	$(BIN)/pytest tests/interop -m quick -n $(WORKERS)

soak: $(STAMP) ## the long runs, at full length
	TIDELOG_SOAK=1 $(BIN)/pytest tests -m "soak and not interop" -n $(WORKERS) --timeout 3600

mutants: $(STAMP) ## old bugs brought back, and how soon an invariant notices each
	$(BIN)/python tools/mutants.py

bench: $(STAMP) ## medians of interleaved runs, a table and a plot
	$(BIN)/python -m benchmarks

wheel: ## build a wheel in dist/
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@rm -f dist/tidelog-*.whl
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	@ls dist/*.whl

docs: $(STAMP) ## the guide as a site, in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

clean: ## what the other targets made
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .hypothesis benchmarks/out dist site
