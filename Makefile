# make demo | make test | make lint | make coverage | …: each target sets up what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: setup demo check test test-random test-orders lint coverage picture checker release-check test-clusters test-oldest test-newest clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@echo "Setting up $(VENV). The first time, this downloads the dependencies and takes a few minutes."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $(STAMP)

demo: setup
	$(BIN)/fairmend demo

test: setup
	$(BIN)/python -m pytest -n auto

# Run the quick tests, for the next change: those that are not in tests/slow_tests.txt.
check: setup
	$(BIN)/python -m pytest -n auto -m "not slow"

# Run the tests with new random examples; what they find becomes a case of its own.
test-random: setup
	$(BIN)/python -m pytest -n auto --hypothesis-profile=random

# Run the tests in five random orders, with one, two and four workers: none may depend on another.
test-orders: setup
	for run in 1:1 2:2 3:4 4:2 5:2; do \
	  echo "order $${run%:*}, $${run#*:} workers"; \
	  $(BIN)/python -m pytest -q -n $${run#*:} --random-order --random-order-seed=$${run%:*} || exit 1; \
	done

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Run the tests and print the share of lines and branches that they run.
coverage: setup
	$(BIN)/python -m pytest -n auto --cov --cov-report=term

# Run the tests that need Dask and Ray, which the other tests do without.
test-clusters: setup
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dask,ray]"
	$(BIN)/python -m pytest tests/workers

# Build the checker as one file, dist/fairmend-check.pyz, that runs with Python and NumPy alone.
checker:
	$(PYTHON) .ci/build-checker dist/fairmend-check.pyz

# Build a release, install it into an empty environment, and run the demo from there.
release-check: setup
	.ci/release-check $(BIN)/python

# Run the tests with the oldest and with the newest releases of the dependencies.
test-oldest:
	.ci/test-with oldest $(PYTHON)

test-newest:
	.ci/test-with newest $(PYTHON)

# Draw the picture of the README (the top of the demo's report, in Chromium) and the import graph.
picture: setup
	$(BIN)/python docs/picture.py docs/images/report.png
	$(BIN)/python docs/import_graph.py docs/images/imports.svg

clean:
	rm -rf $(VENV) fairmend-demo fairmend-audit
