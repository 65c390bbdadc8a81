# Two commands do everything: `make course` and `make test`. Both set up what is missing and can be run again.
PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.13 || command -v python3)
BIN := .venv/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)
export OMP_NUM_THREADS ?= 1

.PHONY: course test proof serve setup setup-test sandbox book clean

course: setup sandbox
	$(BIN)/python -m autograder release
	$(MAKE) --no-print-directory book
	$(BIN)/python -m autograder sample
	$(BIN)/python -m autograder grade
	$(BIN)/python -m autograder feedback
	$(BIN)/python -m autograder report
	@echo
	@echo "Book:      make serve"
	@echo "Exercises: exercises/"
	@echo "Feedback:  work/feedback/"
	@echo "Report:    work/reports/report.html"

# The book first: its tests look at the built pages, and two workers must not build it at once.
test: setup-test sandbox book
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 8 --dist worksteal $(TESTS)

# The numbers of the page on grading: every known mistake under five secrets, the better part of an hour on two cores.
proof: setup sandbox
	$(BIN)/python -m autograder verify --json > proof.json.new
	mv proof.json.new book/proof.json

book: setup
	$(BIN)/jupyter-book build book/ -W --keep-going

serve:
	@test -f _build/html/index.html || $(MAKE) --no-print-directory book
	@echo "http://127.0.0.1:8000 (stop with Ctrl-C)"
	@$(PYTHON) -m http.server 8000 --bind 127.0.0.1 --directory _build/html

setup: .venv/course.stamp

setup-test: .venv/test.stamp

.venv/course.stamp: requirements.txt pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed."; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --requirement requirements.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

.venv/test.stamp: requirements-test.txt .venv/course.stamp
	$(BIN)/python -m pip install --quiet --requirement requirements-test.txt
	touch $@

# Grading needs bubblewrap. It is installed where that is allowed; else one line says what to do.
sandbox:
	@command -v bwrap >/dev/null || { [ "$$(id -u)" = 0 ] && run="" || run="sudo -n"; \
	  { $$run apt-get install -y -q bubblewrap || { $$run apt-get update -q && $$run apt-get install -y -q bubblewrap; } \
	    || $$run dnf install -y bubblewrap || $$run pacman -S --noconfirm bubblewrap; } >/dev/null 2>&1; }; \
	  command -v bwrap >/dev/null || { echo "Please install bubblewrap (apt-get install bubblewrap), then run again."; exit 1; }

clean:
	rm -rf _build .pytest_cache .mypy_cache .ruff_cache
