# Everything installs into .venv from the package registries; nothing else of the machine is used.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
GPUS := --gpu a100-sxm-80gb --gpu h100-sxm --gpu l40s --gpu rtx-4090 --gpu b200
JOBS ?= 2
FUZZ_SECONDS ?= 600
# Folder with checkouts of gpu-rodinia, HeCBench and cuda-samples.
PROGRAMS ?= programs

.DEFAULT_GOAL := help
.PHONY: help install demo test test-thorough wheels fuzz lint format docs eval eval-full bench lock clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

$(VENV)/.installed: pyproject.toml requirements.lock
	@command -v $(PYTHON) >/dev/null || { echo "Python 3.11 or newer is needed: no $(PYTHON) found." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint requirements.lock --editable '.[dev]'
	@echo "Compiling the simulator of an SM, once"
	$(BIN)/python -c "from kerncast.models.sm.simulate import prepare; prepare()"
	$(BIN)/python -c "from kerncast.models.learned.trees import prepare; prepare()"
	touch $@

install: $(VENV)/.installed  ## make .venv with everything

demo: install  ## forecast three kernels on five GPUs, from source to report, without a GPU
	@mkdir -p out
	$(BIN)/kerncast predict examples/kernels/gpusd.toml $(GPUS) --report out/gpusd.html
	$(BIN)/kerncast predict examples/kernels/gpusd.toml $(GPUS) --model template
	$(BIN)/python examples/gpusd_by_hand.py
	@echo
	$(BIN)/kerncast predict examples/saxpy.toml $(GPUS) --report out/saxpy.html
	$(BIN)/kerncast predict examples/matmul_tiled.toml $(GPUS) --report out/matmul_tiled.html
	@echo
	@echo "Reports: out/gpusd.html out/saxpy.html out/matmul_tiled.html"

# A file's tests share what they compile and execute, so that each runs in one process; the small files come last.
# Where Python may not keep bytecode, each of 200 processes would compile all modules anew.
test: install  ## run the tests
	env -u CUDA_HOME -u CUDA_PATH -u PYTHONDONTWRITEBYTECODE \
		$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder -q

test-thorough: install  ## run the tests with every combination and all examples of the properties
	env -u CUDA_HOME -u CUDA_PATH -u PYTHONDONTWRITEBYTECODE KERNCAST_TESTS=thorough \
		$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder -q

# The first link by zig builds the library of C++: a minute and a half.
wheels: install  ## run a whole program where there is no compiler: nothing but the packages is on the path
	rm -rf out/wheels && mkdir -p out
	env -i PATH=$(CURDIR)/$(BIN) KERNCAST_CACHE=$(CURDIR)/out/wheels \
		$(BIN)/kerncast run examples/programs/heat.cu --gpu t4 -q -- 20000 40 > out/wheels.txt
	@grep PASS out/wheels.txt
	rm -rf out/wheels

fuzz: install  ## give damaged files to every reader, for ten minutes or FUZZ_SECONDS
	$(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS) --jobs $(JOBS)

lint: install  ## check format, style and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: install  ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: install  ## draw the documents' pictures and make their reports again, and check that examples run and links lead somewhere
	$(BIN)/python tools/draw_pictures.py
	$(BIN)/python tools/example_reports.py
	$(BIN)/python -m pytest -q --no-header tests/e2e/test_documents.py README.md docs

eval: install  ## score the models on measured times, with baselines; samples of the large sets
	$(BIN)/python benchmarks/forecast_catalogue.py
	@mkdir -p out
	$(BIN)/python benchmarks/score_timing.py --jobs $(JOBS) --json out/timing.json
	$(BIN)/python benchmarks/score_evidence.py out/timing.json
	$(BIN)/python benchmarks/score_pairs.py out/timing.json --picture out/compare-reliability.svg
	$(BIN)/python benchmarks/score_energy.py
	$(BIN)/python benchmarks/changed_gpus.py
	$(BIN)/python benchmarks/score_times.py
	$(BIN)/python benchmarks/score_projection.py --jobs $(JOBS)
	$(BIN)/python benchmarks/score_failures.py out/timing.json --jobs $(JOBS)
	$(BIN)/python benchmarks/score_counters.py
	$(BIN)/kerncast study convolution --out out/convolution.md
	$(BIN)/python benchmarks/score_measurements.py
	$(BIN)/python benchmarks/score_average_case.py
	$(BIN)/python benchmarks/score_operators.py
	$(BIN)/python benchmarks/score_advice.py
	$(BIN)/python benchmarks/score_kernelbench.py
	$(BIN)/python benchmarks/score_bounds.py --pictures out/bounds
	$(BIN)/python benchmarks/score_partition_errors.py out/timing.json
	$(BIN)/python benchmarks/product_ladder.py --jobs $(JOBS)
	$(BIN)/python benchmarks/score_sweeps.py --sample 24 --jobs $(JOBS)
	@test -d "$(PROGRAMS)" || echo "Whole programs are left out: PROGRAMS names no folder with checkouts (docs/whole-programs.md)"
	@test ! -d "$(PROGRAMS)" || $(BIN)/python benchmarks/score_whole_programs.py --reduced \
		--rodinia $(PROGRAMS)/gpu-rodinia --hecbench $(PROGRAMS)/HeCBench --samples $(PROGRAMS)/cuda-samples

eval-full: install  ## score the models on every measured time: hours
	$(BIN)/python benchmarks/score_timing.py --jobs $(JOBS) --full
	@mkdir -p out
	$(BIN)/python benchmarks/partition_sweeps.py out/partitions.jsonl
	$(BIN)/python benchmarks/score_partitions.py out/partitions.jsonl --picture out/partitions.svg

bench: install  ## measure the speed of the executor, of projecting a profile and of the cache; compile the suite for every architecture
	$(BIN)/python benchmarks/engine_speed.py
	$(BIN)/python benchmarks/compile_suite.py
	$(BIN)/python benchmarks/projection_speed.py
	$(BIN)/python benchmarks/cache_speed.py
	$(BIN)/python benchmarks/operator_speed.py
	$(BIN)/python benchmarks/sweep_speed.py --share 0.1 --jobs $(JOBS)

lock:  ## pin the newest versions of everything
	rm -rf $(VENV)-lock && $(PYTHON) -m venv $(VENV)-lock
	$(VENV)-lock/bin/python -m pip install --quiet --editable '.[dev]'
	$(VENV)-lock/bin/python -m pip freeze --exclude-editable > requirements.lock
	rm -rf $(VENV)-lock

clean:  ## remove what the targets made
	rm -rf $(VENV) out build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis src/*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
