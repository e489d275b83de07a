#!/bin/bash
# fetch_triton.sh FOLDER: unpacks Triton 3.6 of PyPI for the machine's Python into FOLDER/triton, once,
# without what only running on NVIDIA's GPUs needs, and prints that folder, for PYTHONPATH. Exit 77:
# cannot be had here, the reason is on stderr.
set -euo pipefail

[ $# -eq 1 ] || { echo "usage: fetch_triton.sh FOLDER" >&2 && exit 2; }
cannot() {
    echo "fetch_triton.sh: $1" >&2
    exit 77
}

mkdir -p "$1"
folder=$(cd "$1" && pwd)
result=$folder/triton
exec 9>"$folder/triton.lock"
flock 9
if [ ! -e "$result/.complete" ]; then
    rm -rf "$result" "$folder/wheel"
    python3 -m pip --version >/dev/null 2>&1 || cannot "no pip for python3"
    python3 -m pip download -q --no-deps --only-binary=:all: --no-cache-dir -d "$folder/wheel" \
        triton==3.6.0 2>"$folder/triton.log" || cannot "pip: $(tail -n 1 "$folder/triton.log")"
    python3 - "$folder/wheel" "$result" <<'END'
import pathlib
import sys
import zipfile

wheel, = pathlib.Path(sys.argv[1]).glob("*.whl")
left_out = tuple("triton/" + name for name in (
    "backends/nvidia/bin", "backends/nvidia/lib", "backends/nvidia/include", "backends/amd/include",
    "_C/libproton", "_C/include", "profiler", "instrumentation"))
with zipfile.ZipFile(wheel) as archive:
    archive.extractall(sys.argv[2], [n for n in archive.namelist() if not n.startswith(left_out)])
END
    rm -rf "$folder/wheel"
    touch "$result/.complete"
fi
echo "$result"
