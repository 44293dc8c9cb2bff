# Starts the keeper by a Python of this minor version, which modules in machine code need, also by one that uv has.
#
# Where there is none, the shell takes the message that is for the keeper, tells what the host has instead, and reads the
# size of an archive with an interpreter, and the archive; without one (0) uv installs an interpreter if it is there.
printf '\n%s\n' "$mark"
PATH=$PATH:$HOME/.local/bin
run() { command -v "$1" >/dev/null && "$1" -c "$check" </dev/null 2>/dev/null && exec "$1" -u -c "$keeper"; }
export IOCURVE_REMOTE_DIR="$directory"
at=${directory:-${XDG_CACHE_HOME:-$HOME/.cache}/iocurve}/$python
run "$python"; run "/usr/local/bin/$python"; run python3; run "$at/bin/$python"
run "$(uv python find "$version" 2>/dev/null)"
read -r message || exit
echo "{\"machine\": \"$(uname -m)\", \"lacks\": \"$(python3 -V 2>/dev/null || echo no Python)\"}"
read -r size || exit
if [ "$size" -gt 0 ]; then
    mkdir -p "$at.$$" && head -c "$size" | tar -xz -C "$at.$$" && { [ -d "$at" ] || mv "$at.$$" "$at"; }
    rm -rf "$at.$$"; run "$at/bin/$python"
else
    uv python install "$version" </dev/null && run "$(uv python find "$version")"
fi
exit 127
