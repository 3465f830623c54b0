# make check: everything that CI checks. make fixtures: golden reports anew (look at the diff before you commit it).
PYTHON ?= .venv/bin/python
.PHONY: check lint types test golden wheel clean

check: lint types test

lint:
	$(PYTHON) -m ruff check .
	$(PYTHON) -m triage signature lint
	$(PYTHON) -m triage playbook lint

types:
	$(PYTHON) -m mypy

test:
	$(PYTHON) -m pytest -n auto --dist loadfile

golden:
	$(PYTHON) -m pytest tests/test_incidents.py tests/test_readme.py tests/report/test_postmortem.py --update-golden

wheel:
	$(PYTHON) -m pip wheel --no-deps -w dist .

clean:
	rm -rf dist build .mypy_cache .ruff_cache .pytest_cache
