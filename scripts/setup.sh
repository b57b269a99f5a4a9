#!/usr/bin/env bash
# Makes the virtual environment and installs the project into it. The Makefile calls it; nothing else is needed
# beforehand but Python 3.10 or newer. Not here: Go and the backends (scripts/build_backends.sh).
#
#   scripts/setup.sh VENV run            the project, as a user would have it
#   scripts/setup.sh VENV GROUP          the project and a dependency group of pyproject.toml (dev, test, lint, bench)
#
# VENV: a path, absolute or from the project's root.
# PYTHON: the interpreter to make the environment with. Default: python3, else the newest python3.N on PATH.
set -euo pipefail

venv=$1
group=$2
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
lowest='3, 10'

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$@"; exit 1; }

new_enough() { "$1" -c "import sys; sys.exit(sys.version_info < ($lowest))" >/dev/null 2>&1; }

find_python() {
  local name
  if [[ -n ${PYTHON:-} ]]; then
    command -v "$PYTHON" >/dev/null || die "PYTHON=$PYTHON: there is no such program."
    new_enough "$PYTHON" ||
      die "PYTHON=$PYTHON is $("$PYTHON" --version 2>&1); otel-cassette needs Python 3.10 or newer."
    printf '%s' "$PYTHON"
    return
  fi
  for name in python3 python3.14 python3.13 python3.12 python3.11 python3.10 python; do
    # Run, not only looked up: a version manager leaves a name on PATH whose version is not chosen.
    if new_enough "$name"; then
      printf '%s' "$name"
      return
    fi
  done
  die "found no Python 3.10 or newer on PATH (python3 is: $({ python3 --version || echo missing; } 2>/dev/null))." \
    "Install one, or name it: make test PYTHON=/path/to/python3.12"
}

make_venv() {
  if [[ -x $venv/bin/python ]] && new_enough "$venv/bin/python"; then
    return
  fi
  if [[ -e $venv && ! -f $venv/pyvenv.cfg ]]; then
    die "$venv exists and is no virtual environment; move it away, or choose another: make test VENV=DIR"
  fi
  local python
  python=$(find_python)
  "$python" -c 'import venv' 2>/dev/null || die "$("$python" --version) has no 'venv' module." \
    "Debian and Ubuntu: apt-get install python3-venv"
  "$python" -c 'import ensurepip' 2>/dev/null || die "$("$python" --version) has no 'ensurepip', so a virtual" \
    "environment would have no pip. Debian and Ubuntu: apt-get install python3-venv"
  say "making $venv with $("$python" --version) ($(command -v "$python"))"
  "$python" -m venv --clear "$venv"
}

# A package index now and then drops a connection in a way that pip's own --retries does not cover.
pip_install() {
  local try
  for try in 1 2 3; do
    if "$venv/bin/python" -m pip --disable-pip-version-check install --quiet --retries 5 "$@"; then
      return
    fi
    say "pip install failed (try $try of 3): $*"
    sleep $((try * 5))
  done
  die "pip could not install '$*'. The lines above say why; without a network, point pip at a mirror" \
    "(PIP_INDEX_URL) or at a folder of wheels (PIP_FIND_LINKS)."
}

cd "$root"
make_venv
if [[ $group == run ]]; then
  pip_install --editable .
else
  pip_install --upgrade 'pip>=25.1' # the first with --group
  pip_install --editable . --group "$group"
fi
