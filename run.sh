#!/bin/sh
# The one command of the project. It makes the environment (.venv) on the first run, and again when the lock file or
# the Python of the environment changes. Then it runs the program.
#
#   ./run.sh                    serve with the file that TOLLGATE_CONF names, else with the proxy.conf in this folder
#   ./run.sh test [ARGS]        linters, type checker, whole test suite (ARGS go to pytest)
#   ./run.sh test --large       what is large by nature, such as all recordings; the suite runs a sample of it
#   ./run.sh test NAME [ARGS]   the same for one folder of tests, such as vendors
#   ./run.sh bench [ARGS]       the benchmark
#   ./run.sh mutate [ARGS]      put small faults into the code, and say which of them no test catches
#   ./run.sh lock               renew the lock files (needs uv)
#   ./run.sh ANYTHING ELSE      the tollgate command line: ./run.sh --help
#
# TOLLGATE_PYTHON names the Python that makes the environment. Only that first run writes into this folder: later, any
# user who can read it can run the program.
#
# The current folder may be anyone's. So no Python here imports from it (-I, -P or PYTHONSAFEPATH), and uv, which reads
# settings and environments there, runs in the folder of this script.
set -eu

say() { printf 'tollgate: %s\n' "$*" >&2; }
die() { say "$@"; exit 1; }

# Print the file that a chain of symbolic links names. Not every system has `readlink -f`.
follow_links() {
    path=$1
    while [ -L "$path" ]; do
        link=$(readlink "$path")
        case $link in
            /*) path=$link ;;
            *) path=$(dirname -- "$path")/$link ;;
        esac
    done
    printf '%s\n' "$path"
}

root=$(CDPATH='' cd -- "$(dirname -- "$(follow_links "$0")")" && pwd -P)
venv=$root/.venv
# uv runs in another folder.
case ${TOLLGATE_PYTHON:-} in
    '' | /*) ;;
    */*) TOLLGATE_PYTHON=$PWD/$TOLLGATE_PYTHON ;;
esac

run_uv() { (CDPATH='' cd -- "$root" && uv "$@"); }
uv_works() { command -v uv >/dev/null 2>&1 && run_uv --version >/dev/null 2>&1; }

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
    home=${HOME:-/nonexistent}
    for minor in 19 18 17 16 15 14 13 12; do
        name=python3.$minor
        on_path "$name"
        for place in "${PYENV_ROOT:-$home/.pyenv}/versions/3.$minor."*/bin "$home/.pyenv/versions/3.$minor."*/bin \
            "$home/.local/share/uv/python/cpython-3.$minor."*/bin "$home/.local/bin" /usr/local/bin /usr/bin \
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
    if [ -z "$found" ] && uv_works && run_uv python install --quiet 3.13 >&2; then
        found=$(run_uv python find --system 3.13)
    fi
    [ -n "$found" ] || die "found no working Python 3.12 or newer. Install uv (https://docs.astral.sh/uv), and this" \
        "command gets a Python with it. Or install one with ssl, sqlite3 and venv (on newer Debian and Ubuntu:" \
        "apt install python3 python3-venv), or name one in TOLLGATE_PYTHON."
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
    version=$("$venv/bin/python" -I -c 'import platform; print(platform.python_version())')
    packages=$(grep -c '^[A-Za-z0-9].*==' "$root/$1.lock" || true)
    began=$(date +%s)
    say "installing $1.lock into .venv (Python $version): up to $packages packages, some minutes"
    # uv does not read the configuration of pip, so pip may find the packages where uv fails.
    install_with_uv "$1" || install_with_pip "$1" "$packages" ||
        die "can't install the packages of $1.lock (see above)." \
            "TOLLGATE_PYTHON can name another Python."
    say "installed $1.lock in $(($(date +%s) - began)) s"
}

# The program may run as a user who can't write compiled files, so make them now. Tests compile what they import, which
# is the smaller part of their packages: to compile all takes some 20 s of CPU.
compile_option() {
    if [ "$1" = requirements ]; then printf '%s\n' "$2"; else printf '%s\n' "$3"; fi
}

# On a terminal, uv shows bars of its own.
install_with_uv() {
    uv_works || return 1
    set -- "$(compile_option "$1" --compile-bytecode --no-compile-bytecode)" --python "$venv/bin/python" --no-deps \
        --require-hashes -r "$root/$1.lock"
    if [ ! -t 2 ]; then set -- --quiet "$@"; fi
    run_uv pip install "$@" >&2
}

install_with_pip() {
    "$venv/bin/python" -I -m pip --version >/dev/null 2>&1 || "$venv/bin/python" -I -m ensurepip >/dev/null
    set -- "$2" "$(compile_option "$1" --compile --no-compile)" --disable-pip-version-check --no-deps --require-hashes \
        -r "$root/$1.lock"
    if [ ! -t 2 ]; then
        shift
        "$venv/bin/python" -I -m pip install -qq "$@" >&2
        return
    fi
    packages=$1
    shift
    # The status of pip goes past the pipe, on a file of its own.
    status=$({ { "$venv/bin/python" -I -m pip install --progress-bar off "$@" || echo failed >&3; } |
        show_progress "$packages" >&2; } 3>&1)
    [ -z "$status" ]
}

# Turn the lines of pip into one line of a terminal. Its cursor stays at the beginning, so that an error overwrites it.
show_progress() {
    count=0
    while IFS= read -r line; do
        case $line in
            'Collecting '* | 'Processing '* | 'Ignoring '* | 'Requirement already satisfied: '*)
                count=$((count + 1))
                name=${line#Requirement already satisfied: }
                name=${name#* }
                name=${name%%[ =:;(]*}
                printf '\033[K  %s of %s: %s\r' "$count" "$1" "${name##*/}"
                ;;
            'Installing collected packages'*) printf '\033[K  unpacking all of them\r' ;;
        esac
    done
    printf '\033[K'
}

make_environment() {
    if ! is_ready requirements; then
        say "making .venv with $python"
        rm -rf "$venv"
        { uv_works && run_uv venv --quiet --no-project --python "$python" "$venv" >&2; } ||
            "$python" -I -m venv "$venv" >&2
    fi
    install "$1"
    "$venv/bin/python" -I -m compileall -q "$root/addon" "$root/policies" >/dev/null 2>&1 || true
    # The environment for tests has the packages of the gateway in the same versions, so it gets both stamps.
    for lock in requirements "$1"; do
        fingerprint "$venv/bin/python" "$lock" >"$venv/$lock.stamp"
    done
}

# Say what is missing where this user can't make the environment.
require_write_access() {
    if [ -w "$root" ] && { [ ! -e "$venv" ] || [ -w "$venv" ]; }; then return; fi
    # ls -l prints the owner third. Not every system has stat.
    owner=$(ls -ld "$root" | { read -r _ _ name _; printf '%s\n' "$name"; })
    command="$root/run.sh --version"
    if [ "$1" = requirements-test ]; then command="$root/run.sh test"; fi
    if [ -f "$venv/$1.stamp" ] && ! "$venv/bin/python" -I -c '' 2>/dev/null; then
        die "$(id -un) can't start $venv/bin/python, which needs $(follow_links "$venv/bin/python")." \
            "Let $owner remove $venv and run: TOLLGATE_PYTHON=/usr/bin/python3 $command (a Python that all users can read)"
    fi
    die "$venv is not made yet, or not for this $1.lock, and $(id -un) can't write $root." \
        "Let $owner run once: $command"
}

# The kernel releases this lock when the last process closes the file, so a crash leaves no lock behind.
ensure_environment() {
    is_ready "$1" && return
    require_write_access "$1"
    python=$(find_python)
    exec 9>"$root/.venv.lock"
    "$python" -I -c 'import fcntl; fcntl.flock(0, fcntl.LOCK_EX | fcntl.LOCK_NB)' <&9 2>/dev/null ||
        say "another run.sh makes .venv; waiting for it"
    "$python" -I -c 'import fcntl; fcntl.flock(0, fcntl.LOCK_EX)' <&9
    if ! is_ready "$1"; then make_environment "$1"; fi
    exec 9>&-
}

tollgate() {
    ensure_environment requirements
    # PYTHONSAFEPATH: never import a folder `addon` of the current folder.
    # PYTHONUTF8: files and output are UTF-8, also in a locale that lacks some of the characters.
    PYTHONPATH=$root PYTHONSAFEPATH=1 PYTHONUTF8=1 exec "$venv/bin/python" -m "$@"
}

# Print how much room a folder has, 0 if this user can't write there.
free_kib() {
    if [ -w "$1" ]; then df -Pk "$1" | awk 'NR == 2 { print $4 }'; else printf '0\n'; fi
}

run_tests() {
    ensure_environment requirements-test
    cd "$root"
    # The bare name of a folder in tests/ is what is large in it, at its whole size.
    case ${1:-} in
        '' | -* | *[!a-z_]*) ;;
        *)
            if [ -d "tests/$1" ]; then
                folder=tests/$1
                shift
                set -- "$folder" --large "$@"
            fi
            ;;
    esac
    export PYTHONPATH="$root"
    # Keep compiled tests. Otherwise each process compiles all of them again, for more than ten seconds of CPU.
    unset PYTHONDONTWRITEBYTECODE
    # Tests write thousands of small files, so keep them in memory where there is room, and off the disk.
    if [ -z "${TMPDIR:-}" ] && [ "$(free_kib /dev/shm)" -gt 4000000 ]; then
        TMPDIR=$(mktemp -d /dev/shm/tg.XXXXXX)
        export TMPDIR
        # As in /tmp, other users may pass through.
        chmod 711 "$TMPDIR"
        trap 'rm -rf "$TMPDIR"' EXIT
    fi
    failed=0
    # The linters run at the same time as the tests. Their output comes last, in one piece.
    lint_output=$(mktemp)
    run_linters >"$lint_output" 2>&1 &
    linters=$!
    # Not every shell runs the trap for its end when a signal ends it. And what runs in the background ignores Ctrl-C.
    trap 'end_linters; exit 130' INT
    trap 'end_linters; exit 143' TERM
    # Run more files at a time than there are cores, because many tests wait. The user's arguments come last and win:
    # `-n 0` runs all tests in one process.
    workers=$("$venv/bin/python" -I -c 'import os; print(min(8, 2 * (os.cpu_count() or 1) + 1))')
    "$venv/bin/python" -P -m pytest -n "$workers" "$@" || failed=1
    wait "$linters" || failed=1
    cat "$lint_output"
    rm -f "$lint_output"
    exit "$failed"
}

run_linters() {
    found=0
    trap 'kill "$linter"; exit 143' TERM
    for command in 'ruff check --quiet .' 'ruff format --quiet --check .' mypy; do
        "$venv/bin/python" -P -m $command &
        linter=$!
        wait "$linter" || found=1
    done
    return "$found"
}

end_linters() {
    kill "$linters" 2>/dev/null || return 0
    wait "$linters" || true
}

refresh_locks() {
    uv_works || die "renewing the lock files needs uv."
    cd "$root"
    set -- --universal --python-version 3.12 --generate-hashes --upgrade --quiet \
        --no-header --no-annotate --no-emit-index-url --no-emit-find-links
    run_uv pip compile pyproject.toml "$@" -o requirements.lock >/dev/null
    run_uv pip compile pyproject.toml "$@" --group test -c requirements.lock -o requirements-test.lock >/dev/null
}

case ${1:-} in
    '')
        # TOLLGATE_CONF names the configuration of every command, this one included.
        if [ -n "${TOLLGATE_CONF:-}" ]; then set -- serve; else set -- serve --conf "$root/proxy.conf"; fi
        tollgate addon.cli "$@"
        ;;
    test) shift; run_tests "$@" ;;
    mutate)
        shift
        ensure_environment requirements-test
        cd "$root"
        PYTHONPATH=$root:$root/tests PYTHONSAFEPATH=1 exec "$venv/bin/python" -m mutation "$@"
        ;;
    bench) shift; tollgate benchmarks "$@" ;;
    lock) refresh_locks ;;
    *) tollgate addon.cli "$@" ;;
esac
