# `make` alone lists the targets. Everything lives in .venv; only Python 3.11+ has to be there (PYTHON=... picks one).

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
  $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
RUNTIME := .venv/.runtime-installed
DEV := .venv/.dev-installed
SPARK := .venv/.spark-installed
COMPILE_TOOLS := .venv/.compile-tools-installed

# Bytecode is compiled at install; Python must be free to use and refresh it, or every start pays for the compiler.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install compiled demo test test-compiled sim test-long lint format bench bench-pipeline generate lock dist clean dev
.DEFAULT_GOAL := help

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

install: $(RUNTIME) compiled ## create .venv with .venv/bin/tidelog
	@$(BIN)/python -m compileall -q src

# Optional: without a C compiler the same sources run as plain Python, and one line says so.
compiled: $(RUNTIME)
	@if $(BIN)/python tools/compile_modules.py --can; then \
	  $(MAKE) --no-print-directory $(COMPILE_TOOLS) && $(BIN)/python tools/compile_modules.py; fi

demo: $(RUNTIME) ## set everything up, then the whole story: a node, a stream of orders, a pipeline on Spark, a page
	@$(BIN)/python -m compileall -q src
	@if [ -n "$$JAVA_HOME" ] || command -v java >/dev/null; then $(MAKE) --no-print-directory $(SPARK) || true; fi
	@$(BIN)/tidelog demo

# Suites that drive other software. An assertion of ours is a verdict and stands; a deadline missed or an error inside a
# foreign client gets one more try, a few times in a whole run, and is shown with its traceback.
FOREIGN := --reruns 1 --max-suite-reruns 3 --rerun-except AssertionError --rerun-show-tracebacks
# A file stays with one worker. The order is ours (tests/conftest.py): by default files with few tests would come last.
FILE_BY_FILE := --dist loadfile --no-loadscope-reorder
WORKERS := -n 2 $(FILE_BY_FILE)
# Clients and nodes mostly wait for one another, and a pipeline waits while its session starts: more workers than
# cores take less time. Brokers that are killed on purpose set the bound.
WAITING_WORKERS := -n 4 $(FILE_BY_FILE)
SPARK_WORKERS := -n 3 $(FILE_BY_FILE)
FOREIGN_TESTS := $(addprefix tests/,cli conformance faults hostile)
SPARK_TESTS := $(addprefix tests/,documents pipelines)

test: lint compiled $(SPARK) ## set everything up, then lint and run all tests but the long ones
	$(BIN)/pytest -m "not long" $(WORKERS) $(addprefix --ignore ,$(FOREIGN_TESTS) $(SPARK_TESTS))
	$(BIN)/pytest -m "not long" $(WAITING_WORKERS) --timeout 300 $(FOREIGN) $(FOREIGN_TESTS)
	$(BIN)/pytest -m "not long" $(SPARK_WORKERS) --timeout 300 $(FOREIGN) $(SPARK_TESTS)
	@$(MAKE) --no-print-directory test-compiled

# The first run above is plain Python, brokers in processes of their own are compiled; this is the rest of the proof.
COMPILED_TESTS := $(addprefix tests/unit/,codec records protocol net storage coordination groups) tests/embedding \
  $(addprefix tests/property/test_,codec.py records.py protocol_hot.py protocol_hot_groups.py log_model.py)
test-compiled: dev compiled ## the tests of the data path once more, compiled
	@if $(BIN)/python tools/compile_modules.py --can; then TIDELOG_COMPILED=1 \
	  $(BIN)/pytest -m "not long" $(WORKERS) -q $(COMPILED_TESTS); fi

SEEDS ?= 1-1000
sim: dev ## simulated quorums, brokers and whole clusters under faults: SEEDS=1-1000, or one seed to see it fail again
	TIDELOG_COMPILED=0 $(BIN)/python -m tests.simulation $(SEEDS)

test-long: dev $(SPARK) ## the tests that take many minutes: many seeds, many kill rounds
	$(BIN)/pytest -m long --timeout 3600

lint: dev ## formatting, rules, types, layers, sizes, drift of generated files
	$(BIN)/ruff format --check --quiet
	$(BIN)/ruff check --quiet
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python tools/check_sizes.py
	$(BIN)/python tools/generate_protocol.py --check
	$(BIN)/python tools/document_protocol.py --check
	$(BIN)/python tools/generate_grpc.py --check

format: dev ## format the code and fix what can be fixed
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

bench: dev compiled ## side by side with a real Apache Kafka (needs Java 17 and Maven)
	$(BIN)/python -m benchmarks

bench-pipeline: dev compiled $(SPARK) ## pipelines beside Spark's plain connector on a real Apache Kafka (needs Java 17 and Maven)
	$(BIN)/python -m benchmarks.pipelines

generate: dev ## message codecs from Kafka's definitions (needs Maven), those of the gRPC door, docs/protocol.md
	$(BIN)/python tools/generate_protocol.py
	$(BIN)/python tools/document_protocol.py
	$(BIN)/python tools/generate_grpc.py

COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
  --no-emit-index-url --no-emit-find-links --no-header --no-annotate

# Extras that every environment here has.
EXTRAS := --extra admin --extra http --extra grpc

lock: dev ## resolve the dependencies again into requirements/
	$(COMPILE) --upgrade pyproject.toml $(EXTRAS) -o requirements/runtime.txt
	$(COMPILE) --upgrade pyproject.toml $(EXTRAS) --extra dev -o requirements/dev.txt
	$(COMPILE) --upgrade pyproject.toml $(EXTRAS) --extra spark -o requirements/spark.txt
	$(COMPILE) --upgrade requirements/build.in -o requirements/build.txt
	$(COMPILE) --upgrade requirements/compile.in --constraint requirements/dev.txt -o requirements/compile.txt

dist: $(RUNTIME) compiled ## sdist, wheel for every platform and compiled wheel for this one, into dist/
	@rm -rf dist
	@$(BIN)/python tools/build_packages.py

clean: ## remove .venv and everything that can be made again
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build .demo src/tidelog/_compiled
	find src tests tools benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

dev: $(DEV) ## create .venv with all that tests and checks need
	@$(BIN)/python -m compileall -q src

.venv/.created:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; name it with make PYTHON=..." >&2; exit 1; }
	$(PYTHON) -m venv .venv
	@touch $@

# The package itself is built without isolation, so that its build tools come from a lock with hashes too.
$(RUNTIME): .venv/.created requirements/runtime.txt requirements/build.txt pyproject.toml src/tidelog/version.py
	$(PIP) install --require-hashes -r requirements/runtime.txt -r requirements/build.txt
	$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(COMPILE_TOOLS): $(RUNTIME) requirements/compile.txt
	$(PIP) install --require-hashes -r requirements/compile.txt
	@touch $@

$(DEV): $(RUNTIME) requirements/dev.txt
	$(PIP) install --require-hashes -r requirements/dev.txt
	@touch $@

# What pipelines need beside Java: a download of 400 MB that the broker can do without.
$(SPARK): $(RUNTIME) requirements/spark.txt
	$(PIP) install --require-hashes -r requirements/spark.txt
	@touch $@
