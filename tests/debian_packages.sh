# For scripts next to this file: finds a program on PATH, or unpacks Debian's package of it into the project.
# It installs nothing into the system. apt uses its own lists and its own cache, so it needs no root.
#
# A script defines `works PROGRAM`, and `install`, which makes the folder in "$new" with `unpack_packages`.

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)

die() { printf 'tollgate: %s\n' "$@" >&2; exit 1; }

# The arguments are names of the program.
print_program_on_path() {
    for name; do
        if path=$(command -v "$name") && works "$path"; then
            printf '%s\n' "$path"
            return
        fi
    done
    return 1
}

has_apt() { command -v apt-get >/dev/null && command -v dpkg >/dev/null; }

apt() {
    apt-get -qq -o Debug::NoLocking=true -o APT::Sandbox::User="$(id -un)" -o Acquire::Languages=none \
        -o Acquire::Retries=2 -o Dir::State::lists="$new/apt/lists" -o Dir::Cache="$new/apt" "$@"
}

# Arguments: a folder, and packages. apt fetches them and only the libraries that this system lacks.
unpack_packages() {
    target=$1
    shift
    mkdir -p "$new/apt/lists/partial" "$new/apt/archives/partial" "$target"
    apt update || true  # The hooks of the system's own lists fail without root. The fetch below shows whether it worked.
    apt install --yes --download-only --no-install-recommends --reinstall "$@" || return
    for package in "$new"/apt/archives/*.deb; do dpkg -x "$package" "$target" || return; done
}

# Arguments: a folder, and the program in it. Makes the folder once, also when several processes want it, with `install`.
install_once() {
    works "$1/$2" && return
    mkdir -p "${1%/*}"
    exec 9>"${1%/*}/lock"
    flock 9
    works "$1/$2" && return
    new=$(mktemp -d "${1%/*}/new.XXXXXX")
    trap 'rm -rf "$new"' EXIT
    install
    rm -rf "$1"
    mv "$new/${1##*/}" "$1"
}
