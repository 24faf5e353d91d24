# make setup | quickstart | test | lint | simulate | bench: on a fresh machine with Python 3.11 or newer each of them sets up .venv itself.
#
#   make setup EXTRAS=fairseq        also install fairseq, without its own conflicting requirements
#   make setup TORCH_INDEX=<url>     take torch from another package index, for example PyTorch's CPU builds
#   make test ARGS="-k store -x"     pass arguments to pytest
#   make test PARALLEL=              one test at a time

# The first that is new enough.
PYTHON ?= $(firstword $(shell for name in python3.11 python3.12 python3.13 python3; do \
	$$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$name; done) python3)
EXTRAS ?=
TORCH_INDEX ?=
ARGS ?=
# Most tests wait for processes and disks, so that two at a time take little more than half as long, on two cores too.
PARALLEL ?= --numprocesses 2 --dist loadfile

comma := ,
bin := .venv/bin
ready := .venv/.ready$(if $(EXTRAS),-$(EXTRAS))
pip := $(bin)/python -m pip install --quiet --disable-pip-version-check --constraint .ci/constraints.txt

.PHONY: setup quickstart test test-slow simulate lint format bench clean

setup: $(ready)

# torch comes first and alone: with the pinned version in place nothing after it pulls another, larger build.
$(ready): pyproject.toml .ci/constraints.txt
	@$(or $(wildcard $(bin)/python),$(PYTHON)) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "wicdistil needs Python 3.11 or newer: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@test -x $(bin)/python || $(PYTHON) -m venv .venv
	$(pip) $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) torch
	$(pip) --editable '.[dev$(if $(EXTRAS),$(comma)$(EXTRAS))]'
ifneq ($(findstring fairseq,$(EXTRAS)),)
	$(pip) --no-deps fairseq==0.12.2
endif
	@touch $@

quickstart: $(ready)
	$(bin)/corpusgen quickstart

test: $(ready)
	$(bin)/python -m pytest $(PARALLEL) -m "not slow" $(ARGS)

test-slow: $(ready)
	$(bin)/python -m pytest $(PARALLEL) -m slow --durations=30 $(ARGS)

lint: $(ready)
	$(bin)/ruff check .
	$(bin)/ruff format --check .
	$(bin)/mypy
	$(bin)/lint-imports

format: $(ready)
	$(bin)/ruff check --fix .
	$(bin)/ruff format .

# Random schedules of crashes, lost answers, lagging listings and flipped bits: for the night.
simulate: $(ready)
	$(bin)/python -m tests.simulation $(or $(ARGS),100000)

bench: $(ready)
	$(bin)/python -m benchmarks.suite $(ARGS)

clean:
	rm -rf .venv build *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
