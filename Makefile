# Every target does its own set-up in a private .venv. Nothing else on the machine is touched, except that root on Debian
# gets the package that makes a venv, if it is missing.
# PYTHON=/path/to/python picks the interpreter; ARGS="..." is handed on to the program that a target starts.

.DEFAULT_GOAL := help
.PHONY: help run test checked programs tests quick check audit wheel bench bench-server reference recordings pictures lock format clean

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Hundreds of processes are started by the tests: each would read every module from its source again.
unexport PYTHONDONTWRITEBYTECODE

python := .venv/bin/python
ready := .venv/.ready
clients := .venv/.clients
tried := .venv/.clients-tried
checking := .venv/.checking
complaints := .venv/.complaints
# Every test file can be imported. What runs them all finds that out by itself.
collected := .venv/.collected
collect = { $(python) -m pytest --collect-only -qq --ignore=tests/clients > $(collected) || { tail -20 $(collected); false; }; }
packages = scripts/audit
core := $(wildcard $(addprefix tests/,vocab wire reply turn session narrate call runtime))

# A stamp that names another folder, or a python that no longer starts, means: set up again.
usable := $(shell test "$$(cat $(ready) 2>/dev/null)" = "$$(pwd -P)" && $(python) -c "print('yes')" 2>/dev/null)
ifneq ($(usable),yes)
.PHONY: $(ready)
endif

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

run: $(ready) ## start the server and open its console; without a configured route a rehearsal model answers
	@exec .venv/bin/turnbuckle serve $(if $(filter --no-open,$(ARGS)),,--open) $(ARGS)

# The code is checked and the programs of others come while the first tests run. What is wrong with the code is told as
# soon as it is known, and again at the end. What is installed is looked at when all of it is there.
test: $(ready) ## make check and every test
	@rm -f $(tried) $(complaints)
	@$(MAKE) --no-print-directory --jobs=3 checked programs tests; code=$$?; \
	cat $(complaints) 2> /dev/null; scripts/audit || code=1; exit $$code

checked: $(ready)
	@$(MAKE) --no-print-directory check collect=true packages=true > $(checking) 2>&1; code=$$?; \
	echo; cat $(checking); test $$code = 0 || cat $(checking) >> $(complaints); exit $$code

# Tests that need them wait until all that was to be had is there.
programs: $(ready)
	@$(MAKE) --no-print-directory --silent $(clients); code=$$?; touch $(tried); \
	test $$code = 0 || echo "set-up: programs for the tests are missing; scripts/set-up-clients says why" >> $(complaints); exit $$code

# With a space in place of the =, a file that is there already would be taken for one of tests.
tests: $(ready)
	@$(python) -m pytest --workers auto --programs=$(tried) -q --durations=5 --ignore=tests/test_tidy.py $(ARGS)

quick: $(ready) ## the tests of the pure core and of what drives it, without processes and without the longest enumerations
	@$(python) -m pytest --workers auto -q -m "not process and not realtime and not exhaustive" $(core) $(ARGS)

check: $(ready) ## lint with bandit's rules, format, types, layers, packages, imports of the tests
	@echo "lint"
	@$(python) -m ruff check --quiet .
	@echo "format"
	@$(python) -m ruff format --quiet --check . || { echo "not formatted: make format"; $(python) -m ruff format --diff --quiet . | head -40; exit 1; }
	@echo "types, layers, packages"
	@$(python) -m mypy --no-error-summary & types=$$!; \
	$(python) -m pytest -q --no-header tests/test_tidy.py && $(packages) && $(collect); layers=$$?; \
	wait $$types && exit $$layers

audit: $(ready) ## ask a database of known holes about every locked package; needs a network
	@scripts/audit --online

wheel: $(ready) ## build dist/turnbuckle-….whl, one file that pip, pipx and uv install
	@$(python) -m pip wheel -qq --no-deps --no-build-isolation --wheel-dir dist . && ls dist/turnbuckle-*.whl

bench: $(ready) ## run the benchmarks
	@for each in decode call journal turn; do echo "== $$each"; $(python) benchmarks/$$each.py $(ARGS) || exit 1; done

bench-server: $(ready) ## measure the server beside its peers, which get venvs of their own
	@benchmarks/peers/set-up
	@$(python) benchmarks/server.py $(ARGS)

format: $(ready) ## put the code into the house format
	@$(python) -m ruff check --quiet --fix-only .
	@$(python) -m ruff format .

reference: $(ready) ## write the parts of the pages that follow from the code
	@scripts/reference

pictures: $(clients) ## take the pictures of the pages again, with a real browser
	@scripts/picture

recordings: $(ready) ## record the terminal sessions of the pages again
	@scripts/record

lock: ## write requirements.lock again, from the newest versions that the ranges allow
	@scripts/lock

clean: ## remove .venv and all caches
	@rm -rf .venv .venv-peers .venv-audit tests/clients/node/node_modules .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
	@find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

$(ready): pyproject.toml requirements.lock scripts/set-up scripts/install
	@scripts/set-up

$(clients): $(ready) tests/clients/node/package-lock.json scripts/set-up-clients scripts/install
	@scripts/set-up-clients
