# Everything runs in .venv, which the first target that needs it makes. PYTHON chooses the interpreter.
PYTHON ?= python3
BIN := .venv/bin
# A busy core makes OpenMP threads that spin while they wait many times slower than ones that sleep.
export OMP_WAIT_POLICY ?= passive

.PHONY: demo test test-long lint bench docs clean

demo: .venv/run  ## train four methods on digits and compare them
	$(BIN)/bilaw demo

test: lint  ## lint, types, and the default tests: under five minutes on two cores
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m "not long"

test-long: .venv/peers  ## the tests that take minutes or fetch packages
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m long

lint: .venv/dev  ## ruff and mypy, strict on src/
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/dev  ## every speed claim, both sides in one run
	$(BIN)/python benchmarks/step.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/loader.py

docs: .venv/dev  ## the API reference, from the docstrings, into build/docs
	$(BIN)/pdoc -o build/docs bilaw '!bilaw.commands'
	@echo 'The guides are docs/*.md; the API reference is build/docs/index.html'

clean:  ## remove what the targets made
	rm -rf .venv build

.venv/run: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[report]'
	touch $@

.venv/dev: .venv/run
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,report]'
	touch $@

# Without what they ask for: torchvision has no build beside every PyTorch, and neither needs it for what is compared.
.venv/peers: .venv/dev
	$(BIN)/python -m pip install --quiet --no-deps --constraint constraints.txt pyautoattack torchattacks
	$(BIN)/python -m pip install --quiet --constraint constraints.txt requests scipy tqdm
	touch $@
