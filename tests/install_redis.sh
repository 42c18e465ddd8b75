#!/bin/sh
# Prints the path of a Redis server for the tests: the one on PATH, else Debian's package, unpacked into .redis/.
# It installs nothing into the system. apt uses its own lists and its own cache, so it needs no root.
set -eu

oldest_major=7

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
cache=$root/.redis
unpacked=$cache/server/redis-server

die() { printf 'tollgate: %s\n' "$@" >&2; exit 1; }

works() {
    major=$("$1" --version 2>/dev/null | sed -n 's/.* v=\([0-9][0-9]*\)\..*/\1/p')
    [ "${major:-0}" -ge "$oldest_major" ]
}

print_server_on_path() {
    for name in redis-server valkey-server; do
        if path=$(command -v "$name") && works "$path"; then
            printf '%s\n' "$path"
            return
        fi
    done
    return 1
}

apt() {
    apt-get -qq -o Debug::NoLocking=true -o APT::Sandbox::User="$(id -un)" -o Acquire::Languages=none \
        -o Acquire::Retries=2 -o Dir::State::lists="$new/apt/lists" -o Dir::Cache="$new/apt" "$@"
}

# apt fetches only the libraries that this system lacks, and the server.
fetch_packages() {
    mkdir -p "$new/apt/lists/partial" "$new/apt/archives/partial" "$new/server/root"
    apt update || true  # The hooks of the system's own lists fail without root. The fetch below shows whether it worked.
    apt install --yes --download-only --no-install-recommends --reinstall redis-server redis-tools
}

# The libraries are next to the server, also after the project has moved.
unpack() {
    for package in "$new"/apt/archives/*.deb; do dpkg -x "$package" "$new/server/root"; done
    cat >"$new/server/redis-server" <<'END'
#!/bin/sh
root=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)/root
LD_LIBRARY_PATH=$(printf '%s:' "$root"/lib/*-linux-*/ "$root"/usr/lib/*-linux-*/)
export LD_LIBRARY_PATH
exec "$root/usr/bin/redis-server" "$@"
END
    chmod +x "$new/server/redis-server"
}

install() {
    new=$(mktemp -d "$cache/new.XXXXXX")
    trap 'rm -rf "$new"' EXIT
    { fetch_packages && unpack; } >"$new/log" 2>&1 && works "$new/server/redis-server" ||
        die "no Redis $oldest_major or newer is available from apt:" "$(tail -n 20 "$new/log")"
    rm -rf "$cache/server"
    mv "$new/server" "$cache/server"
}

print_server_on_path && exit
if ! works "$unpacked"; then
    command -v apt-get >/dev/null && command -v dpkg >/dev/null ||
        die "the tests need a Redis server, version $oldest_major or newer, and there is none on PATH. Install one:" \
            "  macOS: brew install redis     Fedora: dnf install valkey     Alpine: apk add redis"
    mkdir -p "$cache"
    exec 9>"$cache/lock"
    flock 9
    works "$unpacked" || install
fi
printf '%s\n' "$unpacked"
