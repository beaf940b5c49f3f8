# Everything lives in .venv; nothing is installed on the machine.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready

.DEFAULT_GOAL := help
.PHONY: help demo test test-all check fmt bench lock clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-9s %s\n", $$1, $$2}'

$(READY): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "Python 3.10 or newer is needed: set PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r requirements.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps -e .
	@touch $@

demo: $(READY) ## run the main job on an embedded example
	$(BIN)/singer-spark demo

test: check ## run the checks and the tests
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not slow"

test-all: check ## run every test, the long ones too
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder

check: $(READY) ## lint, types, import contracts
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

fmt: $(READY) ## format the code, rewrite the generated tables
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIN)/python -m tools.docs --write

bench: $(READY) ## measure speed and memory against others; ARGS="--quick"
	$(BIN)/python -m benchmarks $(ARGS)

lock: $(READY) ## pin every package anew
	$(BIN)/uv pip compile --quiet --upgrade --universal --generate-hashes --no-header --no-annotate --group dev pyproject.toml -o requirements.lock

clean: ## remove what was made
	rm -rf .venv
