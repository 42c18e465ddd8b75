#!/bin/sh
# Prints the path of a PostgreSQL server for the tests: the one on PATH or in Debian's folder, else Debian's package,
# unpacked into .postgres/. The server's other programs are next to it.
set -eu

. "$(dirname -- "$0")/debian_packages.sh"

oldest_major=15

works() {
    major=$("$1" --version 2>/dev/null | sed -n 's/^postgres (PostgreSQL) \([0-9][0-9]*\).*/\1/p')
    [ "${major:-0}" -ge "$oldest_major" ]
}

# Debian keeps the server off PATH, in a folder for each version.
print_program_of_debian() {
    for program in /usr/lib/postgresql/*/bin/postgres; do
        if works "$program"; then newest=$program; fi
    done
    [ -z "${newest:-}" ] || printf '%s\n' "$newest"
}

# The libraries are next to the server, also after the project has moved. Each package has its version in its name.
unpack() {
    unpack_packages "$new/server/root" '^postgresql(-client)?-[0-9]+$' || return
    for program in postgres initdb pg_basebackup; do
        cat >"$new/server/$program" <<'END'
#!/bin/sh
root=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)/root
LD_LIBRARY_PATH=$(printf '%s:' "$root"/lib/*-linux-*/ "$root"/usr/lib/*-linux-*/)
export LD_LIBRARY_PATH
for folder in "$root"/usr/lib/postgresql/*/bin; do :; done
exec "$folder/${0##*/}" "$@"
END
        chmod +x "$new/server/$program"
    done
}

install() {
    { unpack && works "$new/server/postgres"; } >"$new/log" 2>&1 ||
        die "no PostgreSQL $oldest_major or newer is available from apt:" "$(tail -n 20 "$new/log")"
}

print_program_on_path postgres && exit
found=$(print_program_of_debian)
if [ -n "$found" ]; then printf '%s\n' "$found"; exit; fi
server=$root/.postgres/server
works "$server/postgres" || has_apt ||
    die "the tests need a PostgreSQL server, version $oldest_major or newer, and there is none on PATH. Install one:" \
        "  macOS: brew install postgresql     Fedora: dnf install postgresql-server     Alpine: apk add postgresql"
install_once "$server" postgres
printf '%s\n' "$server/postgres"
