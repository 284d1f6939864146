# minibroker: make setup | demo | check | test | test-all | soak | lint | docs | prepare | bench | bench-quick
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Tests start hundreds of brokers, and each worker imports all test files: without bytecode each start would compile them again.
unexport PYTHONDONTWRITEBYTECODE

# One file at a time for each worker, and files that take long first.
PYTEST := $(BIN)/pytest --dist loadfile --no-loadscope-reorder

.PHONY: setup check check-tests test test-all soak lint docs prepare demo bench bench-quick lock

setup: $(VENV)/.ready

$(VENV)/.ready: requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet $(PIP_OPTIONS) --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --no-deps --no-build-isolation -e .
	$(BIN)/python -m tests.support.compile_modules
	touch $@

check: setup  ## lint, types, contracts, and the tests that run in pytest's own process
	$(MAKE) --jobs=2 --output-sync=target lint check-tests

check-tests: setup
	$(PYTEST) -n 2 -q -m check

test: setup  ## also child processes, Python clients, a round trip with Java and one with Spark
	$(PYTEST) -n 3 -m "check or test"

test-all: setup  ## everything: Java, Spark, crashes, containers; what CI runs
	$(PYTEST) -n 4

soak: setup  ## hours, on a quiet machine: a million frames of the fuzzer, then random tests two to four times as often and with new seeds
	$(BIN)/python -m tests.fuzz run --frames 1000000 --assert-latency
	MINIBROKER_SOAK=1 $(BIN)/pytest tests/crash tests/cluster tests/coordinator tests/faults tests/fuzz tests/golden tests/log tests/model \
		tests/records tests/server tests/storage tests/wire tests/testing tests/clients/test_differential.py tests/clients/test_mirror_maker.py \
		tests/clients/test_tools.py \
		--ignore tests/testing/test_fault_mutations.py

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: setup  ## the site of docs/, in build/site; a broken link fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

prepare: setup  ## once per machine: Kafka's jars, Spark's connector, archives of the classes that their JVMs load
	$(BIN)/python -m tests.support.prepare

demo: setup
	$(BIN)/python -m minibroker.demo

bench: setup  ## all loads, all brokers, five rounds: hours; finished rounds are kept if it is interrupted
	$(BIN)/python benchmarks/run.py

bench-quick: setup  ## small loads of the targets: under five minutes once Kafka's jars and kfake are installed
	$(BIN)/python benchmarks/run.py --quick

lock:  ## write requirements.lock again, with hashes and without host names
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile --quiet --upgrade --python-version 3.11 --universal --generate-hashes --all-extras \
		--no-emit-index-url --no-emit-find-links --no-header pyproject.toml -o requirements.lock
