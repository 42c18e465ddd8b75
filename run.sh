#!/bin/sh
# The one command of the project. It makes the environment (.venv) on the first run, and again when the lock file or
# the Python of the environment changes. Then it runs the program.
#
#   ./run.sh                    serve with the file that TOLLGATE_CONF names, else with the proxy.conf in this folder
#   ./run.sh test [ARGS]        linters, type checker, whole test suite (ARGS go to pytest)
#   ./run.sh bench [ARGS]       the benchmark
#   ./run.sh lock               renew the lock files (needs uv)
#   ./run.sh ANYTHING ELSE      the tollgate command line: ./run.sh --help
#
# TOLLGATE_PYTHON names the Python that makes the environment.
set -eu

say() { printf 'tollgate: %s\n' "$*" >&2; }
die() { say "$@"; exit 1; }

# Find the folder of this file through symbolic links. Not every system has `readlink -f`.
self=$0
while [ -L "$self" ]; do
    link=$(readlink "$self")
    case $link in
        /*) self=$link ;;
        *) self=$(dirname "$self")/$link ;;
    esac
done
root=$(CDPATH='' cd -- "$(dirname -- "$self")" && pwd -P)
venv=$root/.venv

uv_works() { command -v uv >/dev/null 2>&1 && uv --version >/dev/null 2>&1; }

# Version managers install commands that fail when they start, so a Python counts only after it has run.
python_works() {
    needed='ssl, sqlite3'
    uv_works || needed="$needed, venv, ensurepip"
    "$1" -I -c "
import sys, $needed
sys.exit(sys.version_info < (3, 12) or sys.version_info.releaselevel != 'final')" >/dev/null 2>&1
}

on_path() {
    printf '%s\n' "$PATH" | tr ':' '\n' | while IFS= read -r folder; do
        if [ -x "$folder/$1" ]; then printf '%s\n' "$folder/$1"; fi
    done
}

# Print every place that has a Python, newest minor version first, one a line.
python_candidates() {
    for minor in 19 18 17 16 15 14 13 12; do
        name=python3.$minor
        on_path "$name"
        for place in "${PYENV_ROOT:-$HOME/.pyenv}/versions/3.$minor."*/bin "$HOME/.pyenv/versions/3.$minor."*/bin \
            "$HOME/.local/share/uv/python/cpython-3.$minor."*/bin "$HOME/.local/bin" /usr/local/bin /usr/bin \
            /opt/homebrew/bin "/opt/homebrew/opt/python@3.$minor/bin" "/usr/local/opt/python@3.$minor/bin" \
            "/opt/python3.$minor/bin" "/opt/python/3.$minor"*/bin \
            "/Library/Frameworks/Python.framework/Versions/3.$minor/bin"; do
            if [ -x "$place/$name" ]; then printf '%s\n' "$place/$name"; fi
        done
    done
    on_path python3
    on_path python
}

find_python() {
    if [ -n "${TOLLGATE_PYTHON:-}" ]; then
        python_works "$TOLLGATE_PYTHON" || die "TOLLGATE_PYTHON=$TOLLGATE_PYTHON is no working Python 3.12 or newer" \
            "with ssl, sqlite3 and venv."
        printf '%s\n' "$TOLLGATE_PYTHON"
        return
    fi
    found=$(python_candidates | while IFS= read -r candidate; do
        if python_works "$candidate"; then printf '%s\n' "$candidate"; break; fi
    done)
    if [ -z "$found" ] && uv_works && uv python install --quiet 3.13 >&2; then
        found=$(uv python find 3.13)
    fi
    [ -n "$found" ] || die "found no working Python 3.12 or newer. Install one with ssl, sqlite3 and venv" \
        "(on Debian and Ubuntu: apt install python3 python3-venv), or name one in TOLLGATE_PYTHON."
    printf '%s\n' "$found"
}

# Print what an environment is made of: the hash of a lock file and the version of a Python. Fail if that Python does
# not start.
fingerprint() {
    "$1" -I -c "
import hashlib, platform, sys
print(hashlib.sha256(open(sys.argv[1], 'rb').read()).hexdigest(), platform.python_version())" "$root/$2.lock" \
        2>/dev/null
}

# The stamp is written last, so a half-made environment never counts.
is_ready() {
    [ -f "$venv/$1.stamp" ] || return 1
    for one in "$venv/bin/python" ${TOLLGATE_PYTHON:+"$TOLLGATE_PYTHON"}; do
        [ "$(fingerprint "$one" "$1")" = "$(cat "$venv/$1.stamp")" ] || return 1
    done
}

install() {
    version=$("$venv/bin/python" -c 'import platform; print(platform.python_version())')
    say "installing $1.lock into .venv (Python $version)"
    # uv does not read the configuration of pip, so pip may find the packages where uv fails.
    if uv_works && uv pip install --quiet --python "$venv/bin/python" --no-deps --require-hashes -r "$root/$1.lock" >&2; then
        return
    fi
    "$venv/bin/python" -m pip --version >/dev/null 2>&1 || "$venv/bin/python" -m ensurepip >/dev/null
    "$venv/bin/python" -m pip install -qq --disable-pip-version-check --no-deps --require-hashes -r "$root/$1.lock" >&2 ||
        die "can't install the packages of $1.lock (see above)." \
            "TOLLGATE_PYTHON can name another Python."
}

make_environment() {
    if ! is_ready requirements; then
        rm -rf "$venv"
        { uv_works && uv venv --quiet --no-project --python "$python" "$venv" >&2; } || "$python" -m venv "$venv" >&2
    fi
    install "$1"
    # The environment for tests has the packages of the gateway in the same versions, so it gets both stamps.
    for lock in requirements "$1"; do
        fingerprint "$venv/bin/python" "$lock" >"$venv/$lock.stamp"
    done
}

# The kernel releases this lock when the last process closes the file, so a crash leaves no lock behind.
ensure_environment() {
    is_ready "$1" && return
    python=$(find_python)
    exec 9>"$root/.venv.lock"
    "$python" -I -c 'import fcntl; fcntl.flock(0, fcntl.LOCK_EX)' <&9
    if ! is_ready "$1"; then make_environment "$1"; fi
    exec 9>&-
}

tollgate() {
    ensure_environment requirements
    # PYTHONSAFEPATH: never import a folder `addon` of the current folder.
    PYTHONPATH=$root PYTHONSAFEPATH=1 exec "$venv/bin/python" -m "$@"
}

run_tests() {
    ensure_environment requirements-test
    cd "$root"
    export PYTHONPATH="$root"
    failed=0
    # The linters run at the same time as the tests. Their output comes last, in one piece.
    lint_output=$(mktemp)
    run_linters >"$lint_output" 2>&1 &
    # Run one file more at a time than there are cores, because many tests wait. The user's arguments come last and win:
    # `-n 0` runs all tests in one process.
    workers=$("$venv/bin/python" -c 'import os; print(min(4, (os.cpu_count() or 1) + 1))')
    "$venv/bin/python" -m pytest -n "$workers" --dist loadfile --no-loadscope-reorder "$@" || failed=1
    wait "$!" || failed=1
    cat "$lint_output"
    rm -f "$lint_output"
    exit "$failed"
}

run_linters() {
    found=0
    "$venv/bin/python" -m ruff check --quiet . || found=1
    "$venv/bin/python" -m ruff format --quiet --check . || found=1
    "$venv/bin/python" -m mypy || found=1
    return "$found"
}

refresh_locks() {
    uv_works || die "renewing the lock files needs uv."
    cd "$root"
    set -- --universal --python-version 3.12 --generate-hashes --upgrade --quiet \
        --no-header --no-annotate --no-emit-index-url --no-emit-find-links
    uv pip compile pyproject.toml "$@" -o requirements.lock >/dev/null
    uv pip compile pyproject.toml "$@" --group test -c requirements.lock -o requirements-test.lock >/dev/null
}

case ${1:-} in
    '')
        # TOLLGATE_CONF names the configuration of every command, this one included.
        if [ -n "${TOLLGATE_CONF:-}" ]; then set -- serve; else set -- serve --conf "$root/proxy.conf"; fi
        tollgate addon.cli "$@"
        ;;
    test) shift; run_tests "$@" ;;
    bench) shift; tollgate benchmarks "$@" ;;
    lock) refresh_locks ;;
    *) tollgate addon.cli "$@" ;;
esac
