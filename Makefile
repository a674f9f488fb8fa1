# A thin skin: every target is a command or two that can be typed by hand.

PYTHON ?= python3
STACK := ort
VENV := .venv$(if $(filter-out ort,$(STACK)),-$(STACK))
SOURCES := bench tests

# Only what is given to make itself counts, never a variable that the shell happens to have.
MODEL :=
GPUS :=
ARGS :=
BASE :=
NEW :=
SETUP_ARGS :=

# A Hydra override that is given to make itself would be ignored without a word.
KNOWN := PYTHON STACK MODEL GPUS ARGS BASE NEW SETUP_ARGS MAKEFLAGS
GIVEN := $(foreach name,$(.VARIABLES),$(if $(filter command,$(firstword $(origin $(name)))),$(name)))
$(foreach name,$(filter-out $(KNOWN),$(GIVEN)),\
	$(error $(name)= is nothing that make knows; Hydra overrides go into ARGS="$(name)=$($(name))", \
	environment variables before `make`))

BENCH = $(VENV)/bin/python -m bench $(if $(MODEL),model=$(MODEL)) \
	$(if $(GPUS),device=cuda device.world_size=$(GPUS)) $(ARGS)

.DEFAULT_GOAL := help
.PHONY: help setup bench sweep compare report matrix doctor selftest coverage overhead test lint lock clean # most are folders, too

help: ## this list
	@echo 'Usage: make TARGET [NAME=value]'
	@awk -F ': *[^#]*## ' '/^[a-z-]+:.*## / { printf "  %-8s %s\n", $$1, $$2 } /^## / { print "           " substr($$0, 4) }' Makefile

setup: ## make or mend .venv; done already, it takes no time; STACK=modern, here and below: .venv-modern
## PYTHON=python3.11 starts it with that one; SETUP_ARGS='--device cpu' or cuda picks the packages
	@$(PYTHON) bench/bootstrap.py --stack $(STACK) $(SETUP_ARGS)

bench: setup ## measure the backends on this machine
## MODEL=bert-large GPUS=8 ARGS="measure.rounds=20" (ARGS: any Hydra overrides)
	$(BENCH)

sweep: setup ## the same for several: ARGS="model=bert-large,gpt2"
	$(BENCH) --multirun

compare: setup ## working tree against the committed results, or BASE=… NEW=… (files, folders, git revisions)
## ARGS=--markdown prints it for a pull request
	$(VENV)/bin/python -m bench.compare $(BASE) $(NEW) $(ARGS)

report: setup ## rebuild reports/ from results/
	$(VENV)/bin/python -m bench.report results --out reports

matrix: setup ## which backend trains which model on this machine, 21 minutes; ARGS=resume=true goes on
## MODEL=gpt2,bert-large for some of them
	$(VENV)/bin/python -m bench.matrix $(if $(MODEL),model=$(MODEL)) $(ARGS)

doctor: setup ## what would run on this machine, what would not, and how to mend it
	$(VENV)/bin/python -m bench.doctor

selftest: setup ## A/A and A/B comparisons whose outcome is known, about 90 minutes; goes on where it was
	$(VENV)/bin/python -m bench.selfcheck.selftest $(ARGS)

coverage: setup ## simulated: how often does the 95 % interval contain the truth?
	$(VENV)/bin/python -m bench.selfcheck.coverage $(ARGS)

overhead: setup ## what the harness costs against a bare training loop, 7 minutes; ARGS="measure=quick"
	$(VENV)/bin/python -m bench.selfcheck.overhead measure=thorough $(ARGS)

test: setup ## all tests that need no GPU, one on each core; ARGS="-k name -x" goes to pytest
	$(VENV)/bin/python -m pytest -n auto --dist loadfile --no-loadscope-reorder $(ARGS)

lint: setup ## formatting, lint and types
	$(VENV)/bin/ruff format --check $(SOURCES)
	$(VENV)/bin/ruff check $(SOURCES)
	$(VENV)/bin/mypy $(SOURCES)

lock: ## derive requirements/ from pyproject.toml, keeping versions; ARGS=--upgrade renews them
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet uv==0.13.8
	$(call compile,ort-cpu,3.10)
	$(call compile,ort-gpu,3.10)
	$(call compile,modern,3.11)
	sed -i -E '/^(nvidia-[^m]|cuda-|triton==)/d' requirements/ort-gpu.txt requirements/modern.txt # torch pins these

# $(1): the extra; $(2): the oldest Python. One file serves every supported one.
define compile
.venv-lock/bin/uv pip compile --quiet pyproject.toml --extra $(1) --extra dev \
	--universal --python-version $(2) --annotation-style line $(ARGS) \
	--custom-compile-command 'make lock  (see the comment on $(1) in pyproject.toml)' \
	--output-file requirements/$(1).txt

endef

clean: ## remove .venv, caches and results/runs; nothing that is committed
	rm -rf .venv .venv-modern .venv*.lock .venv-lock .mypy_cache .pytest_cache .ruff_cache results/runs results/matrix/runs
	find $(SOURCES) -name __pycache__ -prune -exec rm -rf {} +
