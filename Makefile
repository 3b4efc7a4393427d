# On a fresh machine, run `make quickstart` and `make test`. See README.md.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help install quickstart test coverage docs check check-quickstart lint types dist clean

python ?= python3.11
stamp := .venv/.installed
run := runs/fitted-quickstart
settings :=  # more options of `lamina fit`
text := docs/example.txt
questions := "Who founded the Lantern Guild of Harrowmere?" \
  "How many members does the Lantern Guild have?" \
  "What food was served at the feasts of the Lantern Guild?"

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' Makefile | sed 's/:.*## /: /'

install: $(stamp)  ## make .venv with every extra but korean and openvino

# Install again only if one of these files has changed, so that `make` needs no network.
$(stamp): pyproject.toml constraints.txt scripts/install.sh
	@scripts/install.sh $(python)
	@touch $@

quickstart: $(stamp)  ## ask three questions, fit the reader to 512 bundled questions, ask again
	@.venv/bin/lamina ask $(text) $(questions)
	@test -e $(run) || .venv/bin/lamina fit fables/dev --minutes 2 --out $(run) $(settings)
	@.venv/bin/lamina ask --model $(run) $(text) $(questions)

test: $(stamp)  ## run the whole test suite
	@.venv/bin/python -m pytest -n 2 --dist loadgroup -q --durations=30

coverage: $(stamp)  ## run the tests and print their line and branch coverage
	@.venv/bin/python -m pytest -n 2 --dist loadgroup -q --cov --cov-report=term-missing:skip-covered

docs: $(stamp)  ## write the field reference and build all pages into site/
	@.venv/bin/python scripts/recipe_reference.py
	@NO_MKDOCS_2_WARNING=1 .venv/bin/python -m mkdocs build --strict --quiet

lint: $(stamp)  ## check the style with ruff
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .

types: $(stamp)  ## check the types with mypy --strict
	@.venv/bin/mypy

check: lint types test  ## run ruff, mypy --strict and the tests

check-quickstart: $(stamp)  ## run the real quickstart and check its answers
	@.venv/bin/python -m pytest -q -s tests/project/whole_quickstart.py

dist: $(stamp)  ## build the wheel and the source archive into dist/, without a network
	@rm -rf dist
	@.venv/bin/python -m hatchling build

clean:  ## remove the virtual environment and caches, not the runs
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache dist site
