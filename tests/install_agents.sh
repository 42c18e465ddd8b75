#!/bin/sh
# Installs the programs of tests/agents and prints their folder: those of npm, and a Python environment.
#
# All of them are in .agents/: they take some minutes and 1.6 GB once. With `--frequent` it is enough if the two agents
# that most people use are there: they take some seconds and 640 MB in .agents/frequent/.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
root=$(dirname -- "$here")
lists="$here/agents/package.json $here/agents/requirements.txt"
frequent='@anthropic-ai/claude-code @openai/codex'

die() { printf 'tollgate: %s\n' "$@" >&2; exit 1; }

# A folder is complete when its copies of the lists, which are written last, are the same as the lists.
is_complete() {
    for list in $lists; do cmp -s "$list" "$1/installed/${list##*/}" || return; done
}

# Arguments: packages, in the versions of package.json; none are all of it. Scripts of packages run only for those whose
# program is made by one.
install_node() {
    if [ $# = 0 ]; then cp "$here/agents/package.json" .; else printf '{"private": true}\n' >package.json; fi
    for name; do
        shift
        set -- "$@" "$name@$(sed -n "s|^ *\"$name\": \"\([^\"]*\)\".*|\1|p" "$here/agents/package.json")"
    done
    npm install --ignore-scripts --no-audit --no-fund --no-package-lock --fetch-retries=1 --fetch-timeout=60000 "$@" &&
        node node_modules/@anthropic-ai/claude-code/install.cjs
}

install_all() {
    install_node && node node_modules/opencode-ai/postinstall.mjs &&
        "$root/.venv/bin/python" -m venv python &&
        python/bin/python -m pip install --quiet --disable-pip-version-check -r "$here/agents/requirements.txt"
}

# Arguments: a folder, and the command that fills it. Does it once, also when several processes want it.
install_once() {
    is_complete "$1" && return
    command -v npm >/dev/null || die "the tests of agents need Node 20 or newer, with npm."
    mkdir -p "$1"
    exec 9>"$1/lock"
    flock 9
    is_complete "$1" && return
    cd "$1"
    shift
    rm -rf installed node_modules python
    { "$@"; } >log 2>&1 || die "can't install the agents: $(tail -n 5 log)"
    mkdir installed
    cp $lists installed/
}

folder=$root/.agents
if [ "${1:-}" = --frequent ] && ! is_complete "$folder"; then
    folder=$folder/frequent
    install_once "$folder" install_node $frequent
else
    install_once "$folder" install_all
fi
printf '%s\n' "$folder"
