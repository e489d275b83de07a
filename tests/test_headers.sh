#!/usr/bin/env bash
# Each public header compiles alone, in C11 and in C++17, without warnings.
set -euo pipefail
include=$1/include
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
found=0
for header in "$include"/mxgen/*.h; do
    name=mxgen/${header##*/}
    printf '#include <%s>\n#include <%s>\nint mx_probe;\n' "$name" "$name" >"$dir/probe.c"
    cc -std=c11 -Wall -Wextra -Wpedantic -Werror -I"$include" -c "$dir/probe.c" -o "$dir/probe.o"
    if command -v c++ >/dev/null; then
        cp "$dir/probe.c" "$dir/probe.cpp"
        c++ -std=c++17 -Wall -Wextra -Wpedantic -Werror -I"$include" -c "$dir/probe.cpp" \
            -o "$dir/probe.o"
    fi
    found=$((found + 1))
done
echo "$found headers"
[ "$found" -ge 6 ]
