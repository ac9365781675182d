# Everything a person types. Each target does its own set-up.
PYTHON ?= python3
PORT ?= 8501
VENV := .venv
BIN := $(VENV)/bin
# Python compiles what is imported when it is first imported: all of what is installed would take a minute more.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
# A process starts in half the time where Python may keep what it compiled.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test quick check golden faults defects mutants bench simulate certify lock sbom backup restore audit clean

run: $(VENV)/.runtime
	SECOND_LOOK_SIMULATED_LATENCY_S=$${SECOND_LOOK_SIMULATED_LATENCY_S:-0.3} $(BIN)/python serve.py --port $(PORT)

# Three passes, all to their end, each with as many processes as keep the cores busy. A file's tests stay together where
# they share what is slow to start. The tests of workers and of pages start processes of their own and often wait for
# them: the long ones begin first. (One pass beside another was no faster on two cores, and made what is killed and
# started again slow. The browser library keeps an event loop in its process: do not mix tests/browser with others.)
PYTEST := $(BIN)/python -m pytest -q --durations 15
CORES = $(shell $(BIN)/python -c "import os; print(min(os.cpu_count() or 2, 8))")
TWICE = $$((2 * $(CORES)))
ONE_MORE = $$(($(CORES) + 1))

test: $(VENV)/.development
	$(BIN)/python -m tests.browser.install
ifdef ARGS
	$(BIN)/python -m pytest $(ARGS)
else
	@$(PYTEST) -n $(ONE_MORE) --dist loadfile --ignore tests/browser --ignore tests/jobs; others=$$?; \
	$(PYTEST) -n $(TWICE) --dist load --maxschedchunk 1 tests/jobs; jobs=$$?; \
	$(PYTEST) -n $(ONE_MORE) --dist loadfile --no-loadscope-reorder tests/browser; browser=$$?; \
	echo "exit status: tests/jobs $$jobs, tests/browser $$browser, all others $$others"; \
	exit $$((jobs || browser || others))
endif

# Before every commit: lint, types, house, the arithmetic, and storage on SQLite.
quick: check
	$(BIN)/python -m pytest -q -n $(ONE_MORE) --dist loadfile -m "not slow and not postgresql" tests/stopping tests/evaluation tests/pipeline tests/text tests/datasets tests/storage tests/commands/test_tools.py

check: $(VENV)/.development
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_architecture.py

# Fails for a known vulnerability that an update fixes; .ci/audit.py says what else it finds and why it does not fail.
audit: $(VENV)/.development
	$(BIN)/python .ci/audit.py

# An hour or two for all; one module: make mutants ARGS=screening/stopping/theory.py.
mutants: $(VENV)/.development
	$(BIN)/python -m tests.mutants $(ARGS)

# Thirty-odd defects put back, each caught by a test: a few minutes, and only what changed since. ARGS=--again tries all.
defects: $(VENV)/.development
	$(BIN)/python -m tests.defects $(ARGS)

# What must not change unnoticed, written anew; a change of it is reviewed like code.
golden: $(VENV)/.development
	$(BIN)/python -m tests.golden
	WRITE_WORDS=1 $(BIN)/python -m pytest -q -n0 tests/pages/test_every_page.py

faults: $(VENV)/.development
	$(BIN)/python -m tests.faults

bench: $(VENV)/.development
	$(BIN)/python -m benchmarks $(ARGS)

# How often limits and alarms are wrong in simulated runs: once a week, some ten minutes.
simulate: $(VENV)/.development
	$(BIN)/python -m benchmarks.simulations $(ARGS)

certify: $(VENV)/.runtime
	$(BIN)/python -m screening certify $(ARGS)

lock: $(VENV)/.development
	$(BIN)/python -m uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url -q requirements.in -o requirements.txt
	$(BIN)/python -m uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url -q requirements-dev.in -o requirements-dev.txt

# What runs with the program: a CycloneDX bill of materials of this environment, and third-party-notices.md.
sbom: $(VENV)/.development
	$(BIN)/python .ci/notices.py
	$(BIN)/python -m cyclonedx_py requirements requirements.txt --output-reproducible --of JSON -o sbom.cdx.json

backup: $(VENV)/.runtime
	$(BIN)/python -m screening backup $(if $(TO),--to "$(TO)")

restore: $(VENV)/.runtime
	$(if $(FROM),,$(error name the backup: make restore FROM=file))
	$(BIN)/python -m screening restore --from "$(FROM)"

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis test-results

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed (set PYTHON=...)"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# pages/browser is ours: the browser's part of the pages, installed in place, so that Streamlit serves its files.
$(VENV)/.runtime: requirements.txt pages/browser/pyproject.toml | $(VENV)/bin/python
	$(INSTALL) --require-hashes -r requirements.txt
	$(INSTALL) --no-deps --no-build-isolation -e pages/browser
	@touch $@

$(VENV)/.development: requirements-dev.txt $(VENV)/.runtime
	$(INSTALL) --require-hashes -r requirements-dev.txt
	@touch $@
