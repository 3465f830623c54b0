# make check: what CI checks but for long tests (TRIAGE_TEST_ALL=1 make check runs them, too). make golden: golden reports anew (look at the diff before you commit it).
PYTHON ?= .venv/bin/python
WORKERS ?= $(shell $(PYTHON) -c "import os; print((os.cpu_count() or 1) + 1)")# one more than cores: some tests wait
export PYTHONDONTWRITEBYTECODE :=# tests start hundreds of processes: none is to compile what another has compiled
.PHONY: check lint types test golden docs man lock audit sbom licences wheel clean

check:
	@$(MAKE) -j3 lint types test

lint:
	$(PYTHON) -m ruff check .
	$(PYTHON) -m triage signature lint
	$(PYTHON) -m triage playbook lint

types:
	$(PYTHON) -m mypy

test:
	$(PYTHON) -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

golden:
	$(PYTHON) -m pytest tests/test_incidents.py tests/test_readme.py tests/report/test_postmortem.py --update-golden

docs:  # needs the extra docs; no network. Read build/site/index.html
	$(PYTHON) docs/_generate.py site build
	$(PYTHON) -m zensical build --strict -f build/zensical.toml

man:  # man -l build/man/man1/triage-explain.1
	$(PYTHON) docs/_generate.py man build/man

lock:  # needs pip-tools and Python 3.11; .ci/run installs what it names, by hash, before the rest
	$(PYTHON) -m piptools compile -q --upgrade --generate-hashes --allow-unsafe --strip-extras --no-emit-find-links \
	  --no-emit-index-url --extra dev -o .ci/locked-3.11.txt pyproject.toml

audit:  # needs pip-audit and the network
	$(PYTHON) -m pip_audit -r .ci/locked-3.11.txt --require-hashes --disable-pip

sbom:
	@$(PYTHON) -m benchmarks.sbom

licences:
	$(PYTHON) -m benchmarks.sbom --licences > docs/licences.md

wheel:
	$(PYTHON) -m pip wheel --no-deps -w dist .

clean:
	rm -rf dist build .mypy_cache .ruff_cache .pytest_cache
