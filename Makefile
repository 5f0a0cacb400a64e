# Everything runs in .venv, which the first target that needs it makes. PYTHON chooses the interpreter.
PYTHON ?= python3
BIN := .venv/bin
# A busy core makes OpenMP threads that spin while they wait many times slower than ones that sleep.
export OMP_WAIT_POLICY ?= passive

BENCHMARKS := startup gemm step meta pgd growth shares loader autoattack
PEERS := pyautoattack torchattacks foolbox adversarial-robustness-toolbox higher torchopt

.PHONY: demo test test-long lint bench bench-quick docs clean

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

bench: .venv/peers  ## every speed claim, all sides in one run; takes hours, then fills the tables of docs/performance.md
	set -e; for name in $(BENCHMARKS); do $(BIN)/python benchmarks/$$name.py; done
	$(BIN)/python benchmarks/tables.py

bench-quick: .venv/peers  ## every speed claim at a small size, in minutes; results go to build/bench-quick
	set -e; for name in $(BENCHMARKS); do $(BIN)/python benchmarks/$$name.py --quick; done

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

# Without what they ask for: that would bring torchvision, which has no build beside every PyTorch, a requests of 2020,
# and perhaps another PyTorch. The second line is what they do need, with what ART does not say (multiprocess).
# betty-ml 0.1.1 states its needs in a form that pip refuses since 24.1; the last pip that takes it is kept apart.
.venv/peers: .venv/dev
	$(BIN)/python -m pip install --quiet --no-deps --constraint constraints.txt $(PEERS)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt \
		requests scipy tqdm eagerpy GitPython scikit-learn six multiprocess optree graphviz
	$(BIN)/python -m pip install --quiet --upgrade --target .venv/pip24 pip==24.0
	PYTHONPATH=.venv/pip24 $(BIN)/python -m pip install --quiet --no-deps --constraint constraints.txt betty-ml
	touch $@
