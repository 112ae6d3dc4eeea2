# make demo | make test | make lint | make picture: each sets up what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: setup demo test lint picture checker release-check test-oldest test-newest clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $(STAMP)

demo: setup
	$(BIN)/fairmend demo

test: setup
	$(BIN)/python -m pytest -n auto

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The checker as one file, dist/fairmend-check.pyz, that runs with Python and NumPy alone.
checker:
	$(PYTHON) .ci/build-checker dist/fairmend-check.pyz

# What a release must pass: built, installed where nothing else is, and the demo run from there.
release-check: setup
	.ci/release-check $(BIN)/python

# The tests with the oldest and with the newest releases of what fairmend depends on.
test-oldest:
	.ci/test-with oldest $(PYTHON)

test-newest:
	.ci/test-with newest $(PYTHON)

# The README's picture: the top of the demo's report, as Chromium draws it.
picture: setup
	$(BIN)/python docs/picture.py docs/images/report.png

clean:
	rm -rf $(VENV) fairmend-demo fairmend-audit
