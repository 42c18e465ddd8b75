#!/bin/sh
# Prints the path of a Redis server for the tests: the one on PATH, else Debian's package, unpacked into .redis/.
set -eu

. "$(dirname -- "$0")/debian_packages.sh"

oldest_major=7

works() {
    major=$("$1" --version 2>/dev/null | sed -n 's/.* v=\([0-9][0-9]*\)\..*/\1/p')
    [ "${major:-0}" -ge "$oldest_major" ]
}

# The libraries are next to the server, also after the project has moved.
unpack() {
    unpack_packages "$new/server/root" redis-server redis-tools || return
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
    { unpack && works "$new/server/redis-server"; } >"$new/log" 2>&1 ||
        die "no Redis $oldest_major or newer is available from apt:" "$(tail -n 20 "$new/log")"
}

print_program_on_path redis-server valkey-server && exit
server=$root/.redis/server
works "$server/redis-server" || has_apt ||
    die "the tests need a Redis server, version $oldest_major or newer, and there is none on PATH. Install one:" \
        "  macOS: brew install redis     Fedora: dnf install valkey     Alpine: apk add redis"
install_once "$server" redis-server
printf '%s\n' "$server/redis-server"
