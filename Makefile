# Every target sets itself up: a virtual environment in .venv, filled from PyPI.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One more than there are processors: tests of several processes wait for each other now and then.
JOBS ?= 3
# NIC of the demo: tiny is built in a small part of the time of full.
BUILD ?= tiny

.PHONY: help demo docs pictures test test-long vm-test other-pythons lint rtl generated bench synth clean tools

help:
	@echo "make demo    RandomAccess on two simulated NICs, verified, and the trace of one atomic; BUILD=full: all datatypes"
	@echo "make test    all tests but the long ones: about 35 minutes on two cores"
	@echo "make test-long  the long ones: more than an hour"
	@echo "make vm-test NICs as PCI functions of a virtual machine with Debian's kernel: one of the long tests"
	@echo "make other-pythons  imports, conformance and fast tests on the oldest and the newest supported Python"
	@echo "make lint    ruff, mypy --strict on model and driver, plain English, generated files fresh"
	@echo "make rtl     the NIC's Verilog with file lists, into hw/rtl/"
	@echo "make generated  registers.md, amoeba.h, dissector and kin, into docs/generated/; the driver's constants; docs/{testplan,conformance}.md"
	@echo "make synth   size and speed on FPGAs: hours for all, minutes for one block (ARGS=FastLanes); levels of logic: ARGS=--levels; a whole NIC on an Artix-7: ARGS=--artix7"
	@echo "make pictures  the documentation's pictures, into docs/pictures/; with ARGS=--measure those of RTL measured anew"
	@echo "make docs    the documentation's site, with the whole API: build/site/html/index.html"
	@echo "make bench   exact cycle counts and speed ratios: a table, and build/bench.json"

tools:
	@$(PYTHON) scripts/check_tools.py

# What running the simulated NIC takes.
$(VENV)/sim.stamp: pyproject.toml | tools
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[sim]'
	@touch $@

# What testing takes.
$(VENV)/dev.stamp: pyproject.toml | tools
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ $(VENV)/sim.stamp

demo: $(VENV)/sim.stamp
	$(BIN)/amoeba gups --device rtl --build $(BUILD) --ranks 2
	$(BIN)/amoeba trace --device rtl --build $(BUILD)

# A file's tests stay in one process, since they share what they build; tests/budgets.toml has the order of the files.
PYTEST = $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder --durations 30

# Which tests; .ci/run has more.
MARKS ?= not long

test: $(VENV)/dev.stamp
	$(PYTEST) -m "$(MARKS)" $(ARGS)

test-long: $(VENV)/dev.stamp
	$(PYTEST) -m long $(ARGS)

vm-test: $(VENV)/dev.stamp
	$(BIN)/python -m pytest -n 0 tests/system/test_virtual_machine.py $(ARGS)

# On Debian's Pythons, unpacked into build/python; ARGS=3.13: on this one.
other-pythons: $(VENV)/dev.stamp
	$(BIN)/python scripts/other_pythons.py $(ARGS)

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python scripts/prose.py
	$(BIN)/python -m amoeba_model.generate --check
	$(BIN)/python scripts/api_tables --check
	$(BIN)/python tests/testplan.py --check
	$(BIN)/python tests/conformance_page.py --check
	$(BIN)/python scripts/rtl_ports.py --check
	$(BIN)/python scripts/pictures --check

rtl: $(VENV)/sim.stamp
	$(BIN)/python -m amoeba_hw.generate hw/rtl

generated: $(VENV)/dev.stamp
	$(BIN)/python -m amoeba_model.generate
	$(BIN)/python scripts/api_tables
	$(BIN)/python tests/testplan.py
	$(BIN)/python tests/conformance_page.py
	$(BIN)/python scripts/rtl_ports.py

# Drawn from declarations and from what ARGS=--measure has measured on RTL before.
pictures: $(VENV)/dev.stamp
	$(BIN)/python scripts/pictures $(ARGS)

docs: $(VENV)/dev.stamp
	$(BIN)/python scripts/site.py

bench: $(VENV)/dev.stamp
	$(BIN)/python -m bench

# One block: make synth ARGS="FastLanes --family ecp5"
synth: $(VENV)/dev.stamp
	$(BIN)/python scripts/synth.py $(ARGS)

clean:
	rm -rf build $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
