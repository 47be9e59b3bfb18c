# make demo | test | test-long | lint | bench: each builds .venv by itself when pyproject, constraints or the engine changed.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
FOLDERS := benchmarks cli dsl integrations lowering ops runtime schedules vgpu
WORKERS ?= 2

ENGINE := $(sort $(wildcard vgpu/engine/*.cpp vgpu/engine/*.h vgpu/engine/*/*.cpp vgpu/engine/*/*.h))
INSTALL_KEY := $(shell cat pyproject.toml setup.py constraints.txt $(ENGINE) | sha256sum | cut -c1-16)
STAMP := $(VENV)/installed-$(INSTALL_KEY)

# artifacts are shared by the workers and kept between runs, but never mixed with the user's own cache
export TILEWRIGHT_CACHE_DIR ?= $(CURDIR)/build/cache/tilewright
export TILELANG_CACHE_DIR ?= $(CURDIR)/build/cache/tilelang

.PHONY: install demo test test-long lint types format bench clean

install: $(STAMP)

# torch first and alone: pinned, pip takes whichever build of that version lies nearest
$(STAMP):
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt torch
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	rm -f $(VENV)/installed-*
	touch $@

demo: $(STAMP)
	$(BIN)/python examples/demo.py

test: $(STAMP)
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

# what takes minutes: every mutant, and every kernel of the project in every mode
test-long: $(STAMP)
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m long

lint: $(STAMP) types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m pytest -q tests/repository
	$(BIN)/mypy

# mypy finds an editable package only where its folders lie under the import names
types:
	mkdir -p build/types
	rm -rf build/types/tilewright && mkdir build/types/tilewright
	for file in tilewright/*; do ln -s ../../../$$file build/types/tilewright/; done
	for folder in $(FOLDERS); do ln -s ../../../$$folder build/types/tilewright/$$folder; done

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP)
	for name in import call compile lower vgpu; do $(BIN)/tilewright bench $$name || exit 1; done

clean:
	rm -rf $(VENV) build dist demo-output *.egg-info
