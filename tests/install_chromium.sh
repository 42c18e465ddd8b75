#!/bin/sh
# Prints the path of a Chromium for the tests: the one on PATH, else Debian's package, unpacked into .chromium/.
# It installs nothing into the system. apt uses its own lists and its own cache, so it needs no root.
set -eu

oldest_major=130

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
cache=$root/.chromium
unpacked=$cache/browser/chromium

die() { printf 'tollgate: %s\n' "$@" >&2; exit 1; }

works() {
    major=$("$1" --version 2>/dev/null | sed -n 's/^[A-Za-z ]* \([0-9][0-9]*\)\.[0-9.]*.*/\1/p')
    [ "${major:-0}" -ge "$oldest_major" ]
}

print_browser_on_path() {
    for name in chromium chromium-browser chromium-headless-shell google-chrome-stable google-chrome; do
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

# apt fetches only the libraries that this system lacks, the browser without windows, and a font.
fetch_packages() {
    mkdir -p "$new/apt/lists/partial" "$new/apt/archives/partial" "$new/browser/root"
    apt update || true  # The hooks of the system's own lists fail without root. The fetch below shows whether it worked.
    apt install --yes --download-only --no-install-recommends --reinstall \
        chromium-headless-shell chromium-common fonts-dejavu-core
}

# The libraries are next to the browser, also after the project has moved. The configuration of fonts is new, because a
# system without fonts has none, and a page without fonts is empty.
unpack() {
    for package in "$new"/apt/archives/*.deb; do dpkg -x "$package" "$new/browser/root"; done
    cat >"$new/browser/chromium" <<'END'
#!/bin/sh
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
LD_LIBRARY_PATH=$(printf '%s:' "$here"/root/lib/*-linux-*/ "$here"/root/usr/lib/*-linux-*/ \
    "$here"/root/usr/lib/*-linux-*/pulseaudio/)
FONTCONFIG_FILE=$here/fonts.conf
export LD_LIBRARY_PATH FONTCONFIG_FILE
exec "$here/root/usr/lib/chromium/chromium-headless-shell" "$@"
END
    cat >"$new/browser/fonts.conf" <<'END'
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir prefix="relative">root/usr/share/fonts</dir>
  <dir>/usr/share/fonts</dir>
  <cachedir prefix="relative">fonts.cache</cachedir>
</fontconfig>
END
    chmod +x "$new/browser/chromium"
}

# A browser that starts can still lack what it needs for text, so measure a word.
shows_text() {
    "$1" --version
    page='data:text/html,<b>word</b><script>document.title=document.querySelector("b").offsetWidth</script>'
    "$1" --headless --no-sandbox --disable-gpu --user-data-dir="$new/profile" --dump-dom "$page" |
        grep '<title>[1-9]'
}

install() {
    new=$(mktemp -d "$cache/new.XXXXXX")
    trap 'rm -rf "$new"' EXIT
    { fetch_packages && unpack && shows_text "$new/browser/chromium" && works "$new/browser/chromium"; } \
        >"$new/log" 2>&1 || die "no Chromium $oldest_major or newer from apt: $(tail -n 1 "$new/log")"
    rm -rf "$cache/browser"
    mv "$new/browser" "$cache/browser"
}

print_browser_on_path && exit
if ! works "$unpacked"; then
    command -v apt-get >/dev/null && command -v dpkg >/dev/null ||
        die "no Chromium $oldest_major or newer is on PATH, and there is no apt to fetch Debian's."
    mkdir -p "$cache"
    exec 9>"$cache/lock"
    flock 9
    works "$unpacked" || install
fi
printf '%s\n' "$unpacked"
