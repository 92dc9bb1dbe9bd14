# Two commands do everything: `make demo` and `make test`. Each installs what it needs into .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-oldest lint docs campaign soak bench sanitize clean

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --editable ".[test]"
	touch $@

demo: $(VENV)/.installed
	$(BIN)/itergp demo

test: $(VENV)/.installed
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2

# The whole suite with the lowest versions of everything that pyproject.toml promises.
test-oldest:
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/pip install --quiet --editable ".[test]" --constraint tests/oldest.txt
	OMP_NUM_THREADS=1 .venv-oldest/bin/pytest -n 2

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(VENV)/.docs: $(VENV)/.installed
	$(BIN)/pip install --quiet --group docs
	touch $@

# These pages, with the examples executed: build/docs/index.html. A warning is an error.
docs: $(VENV)/.docs
	OMP_NUM_THREADS=1 $(BIN)/sphinx-build -q -W --keep-going -d build/doctrees docs build/docs
	@echo "build/docs/index.html"

# 10,000 random problems times all policies, in both precisions: some two hours on two idle cores. A run that was cut goes on.
campaign: $(VENV)/.installed
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/campaign.py --problems 10000 --workers 2 --record docs/results/campaign.jsonl

# Files, signals and limits under fire: kills, 100,000 damaged or forged files, full disks, devices, links, little memory.
soak: $(VENV)/.installed
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/soak.py all
	$(BIN)/python benchmarks/soak_estimator.py all
	$(BIN)/python benchmarks/soak_doors.py all
	$(BIN)/python benchmarks/soak_large.py

$(VENV)/.bench: $(VENV)/.installed
	$(BIN)/pip install --quiet --editable ".[bench]"
	touch $@

bench: $(VENV)/.bench
	$(BIN)/python benchmarks/products.py
	$(BIN)/python benchmarks/roofline.py
	$(BIN)/python benchmarks/gradients.py
	$(BIN)/python benchmarks/memory.py
	$(BIN)/python benchmarks/rounding.py
	$(BIN)/python benchmarks/serving.py
	$(BIN)/python benchmarks/baselines.py
	$(BIN)/python benchmarks/fit.py
	$(BIN)/python benchmarks/profile_fit.py
	$(BIN)/python benchmarks/scaling.py

# The copy must win over the editable installation, so its finder is taken out.
define SANITIZED_TESTS
import sys
sys.meta_path = [finder for finder in sys.meta_path if "ScikitBuild" not in type(finder).__name__]
import itergp.linalg.engines.native as native, pytest
assert "sanitize-src" in native._tiles.__file__
sys.exit(pytest.main(["-q", "tests/linalg/engines", "tests/linalg/test_index.py", "tests/linalg/test_earlier.py"]))
endef
export SANITIZED_TESTS

# The native code under AddressSanitizer and UndefinedBehaviorSanitizer, in a copy of the sources.
sanitize: $(VENV)/.installed
	$(BIN)/pip install --quiet cmake nanobind
	$(BIN)/cmake -S . -B build/sanitize -DPython_EXECUTABLE=$(abspath $(BIN)/python) -DITERGP_SANITIZE=ON
	$(BIN)/cmake --build build/sanitize
	rm -rf build/sanitize-src && cp -r src build/sanitize-src
	cp build/sanitize/_tiles*.so build/sanitize-src/itergp/linalg/engines/native/
	PYTHONPATH=build/sanitize-src LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" \
	  ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1 $(BIN)/python -c "$$SANITIZED_TESTS"

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
