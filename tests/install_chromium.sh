#!/bin/sh
# Prints the path of a Chromium for the tests: the one on PATH, else Debian's package, unpacked into .chromium/.
set -eu

. "$(dirname -- "$0")/debian_packages.sh"

oldest_major=130

works() {
    major=$("$1" --version 2>/dev/null | sed -n 's/^[A-Za-z ]* \([0-9][0-9]*\)\.[0-9.]*.*/\1/p')
    [ "${major:-0}" -ge "$oldest_major" ]
}

# The libraries are next to the browser, also after the project has moved. The configuration of fonts is new, because a
# system without fonts has none, and a page without fonts is empty.
unpack() {
    # The browser without windows, and a font.
    unpack_packages "$new/browser/root" chromium-headless-shell chromium-common fonts-dejavu-core || return
    cat >"$new/browser/chromium" <<'END'
#!/bin/sh
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
LD_LIBRARY_PATH=$(printf '%s:' "$here"/root/lib/*-linux-*/ "$here"/root/usr/lib/*-linux-*/ \
    "$here"/root/usr/lib/*-linux-*/pulseaudio/)
FONTCONFIG_FILE=$here/fonts.conf
XDG_CACHE_HOME=$here/cache
export LD_LIBRARY_PATH FONTCONFIG_FILE XDG_CACHE_HOME
exec "$here/root/usr/lib/chromium/chromium-headless-shell" "$@"
END
    cat >"$new/browser/fonts.conf" <<'END'
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir prefix="relative">root/usr/share/fonts</dir>
  <dir>/usr/share/fonts</dir>
  <cachedir prefix="xdg">fonts</cachedir>
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
    { unpack && shows_text "$new/browser/chromium" && works "$new/browser/chromium"; } >"$new/log" 2>&1 ||
        die "no Chromium $oldest_major or newer from apt: $(tail -n 1 "$new/log")"
}

print_program_on_path chromium chromium-browser chromium-headless-shell google-chrome-stable google-chrome && exit
browser=$root/.chromium/browser
works "$browser/chromium" || has_apt ||
    die "no Chromium $oldest_major or newer is on PATH, and there is no apt to fetch Debian's."
install_once "$browser" chromium
printf '%s\n' "$browser/chromium"
