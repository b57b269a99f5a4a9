# Every target does its own set-up, in $(VENV); a second run is quick. `make help` lists them.
#
#   PYTHON=python3.12   the interpreter to make the environment with (default: the first that is 3.10 or newer)
#   VENV=DIR            where the environment is (default: .venv)
#   PYTEST_ARGS=...     handed to pytest:  make test PYTEST_ARGS="tests/model -k prefix"
#   DEMO_ARGS=...       handed to the demo: make demo DEMO_ARGS="--otlp http://localhost:4318"

VENV ?= .venv
PYTHON ?=
PYTEST_ARGS ?=
DEMO_ARGS ?=
BIN := $(VENV)/bin
export PYTHON

# One stamp for each set of packages; the environment itself is their common ground.
RUN := $(VENV)/.installed-run
DEV := $(VENV)/.installed-dev
BENCH := $(VENV)/.installed-bench

.DEFAULT_GOAL := help
.PHONY: help demo test lint format bench backends clean

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 12

$(VENV)/.installed-%: pyproject.toml scripts/setup.sh
	@scripts/setup.sh $(VENV) $*
	@touch $(RUN) $@

demo: $(RUN) ## record an agent, replay it, change one prompt line and see where it departs
	@$(BIN)/otel-cassette demo $(DEMO_ARGS)

test: $(DEV) ## the tests (those against a real Collector and Jaeger want `make backends` first)
	$(BIN)/python -m pytest $(PYTEST_ARGS)

lint: $(DEV) ## ruff, mypy, import directions, types of the public surface
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy src scripts $(wildcard examples/*.py tests/typing/*.py)
	$(BIN)/lint-imports --no-logo --no-cache
	PATH="$(abspath $(BIN)):$$PATH" python scripts/check_public_types.py

format: $(DEV) ## put the code into shape, with the fixes that are safe
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(BENCH) ## the benchmarks, with other record-and-replay libraries beside us
	$(BIN)/python -m pytest tests/benchmarks/bench_*.py --override-ini timeout=0 $(PYTEST_ARGS)

backends: ## build a Collector and Jaeger into .cache/bin (needs Go; minutes the first time)
	scripts/build_backends.sh

clean: ## remove the environment and everything built or cached here
	rm -rf $(VENV) .cache build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .benchmarks
