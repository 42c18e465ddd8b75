#!/bin/sh
# Installs the programs of tests/agents into .agents/ and prints that folder: those of npm, and a Python environment.
#
# It takes some minutes and 1.6 GB once. With `--have` it installs nothing, and fails if they are not there.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
root=$(dirname -- "$here")
lists="$here/agents/package.json $here/agents/requirements.txt"

die() { printf 'tollgate: %s\n' "$@" >&2; exit 1; }

# The folder is complete when its copy of the lists, which is written last, is the same as the lists.
is_installed() {
    for list in $lists; do cmp -s "$list" "$root/.agents/installed/${list##*/}" || return; done
}

# Scripts of packages run only for those whose program is made by one.
install_node() {
    cp "$here/agents/package.json" .
    npm install --ignore-scripts --no-audit --no-fund --no-package-lock &&
        node node_modules/@anthropic-ai/claude-code/install.cjs &&
        node node_modules/opencode-ai/postinstall.mjs
}

install_python() {
    "$root/.venv/bin/python" -m venv python &&
        python/bin/python -m pip install --quiet --disable-pip-version-check -r "$here/agents/requirements.txt"
}

install() {
    cd "$root/.agents"
    rm -rf installed node_modules python
    { install_node && install_python; } >log 2>&1 || die "can't install the agents: $(tail -n 5 log)"
    mkdir installed
    cp $lists installed/
}

if ! is_installed; then
    [ "${1:-}" != --have ] || die "the agents of tests/agents are not installed"
    command -v npm >/dev/null || die "the tests of agents need Node 20 or newer, with npm."
    mkdir -p "$root/.agents"
    exec 9>"$root/.agents/lock"
    flock 9
    is_installed || install
fi
printf '%s\n' "$root/.agents"
