#!/usr/bin/env bash
# Installs into an empty folder and builds the documented example against what lies there, the way
# a user would: with pkg-config and nothing else. Then runs it, without a pack and with one.
# Arguments: SOURCE_ROOT BUILD_ROOT [MXGEN]
set -euo pipefail
source=$1 build=$2 mxgen=${3:-}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

DESTDIR=$dir meson install -C "$build" --no-rebuild --quiet
prefix=$(dirname "$(dirname "$(dirname "$(find "$dir" -path '*/include/mxgen/rt.h')")")")
pc_dir=$(dirname "$(find "$dir" -name libmxrt.pc)")
lib_dir=$(dirname "$pc_dir")

for file in include/mxgen/{base,format,pack,rt}.h bin/mxrt share/man/man1/mxrt.1; do
    if [ ! -e "$prefix/$file" ]; then
        echo "$file is not installed" >&2
        exit 1
    fi
done
for link in libmxrt.so libmxrt.so.0; do
    [ -L "$lib_dir/$link" ]
done

# Nothing but the interface is exported.
foreign=$(nm -D --defined-only "$lib_dir/libmxrt.so" | awk '{ print $3 }' |
    grep -v -e '^mxrt_' -e '^LIBMXRT_0' || true)
if [ -n "$foreign" ]; then
    echo "libmxrt.so exports $foreign" >&2
    exit 1
fi
# The runtime runs where no LLVM is.
if readelf -d "$lib_dir/libmxrt.so" "$prefix/bin/mxrt" | grep NEEDED | grep -q LLVM; then
    echo "the runtime needs LLVM" >&2
    exit 1
fi

export PKG_CONFIG_PATH=$pc_dir PKG_CONFIG_SYSROOT_DIR=$dir
read -ra flags <<<"$(pkg-config --cflags --libs libmxrt)"
cc -std=c11 -Wall -Wextra -Werror "$source/docs/examples/convert.c" "${flags[@]}" \
    ${MX_TEST_CFLAGS:-} -lm -o "$dir/convert"
cc -std=c11 -Wall -Wextra -Werror "$source/docs/examples/moe.c" "$source/docs/examples/moe_layer.c" \
    "${flags[@]}" ${MX_TEST_CFLAGS:-} -lm -o "$dir/moe"
export LD_LIBRARY_PATH=$lib_dir MXRT_COMPILER=off

"$dir/convert" >"$dir/reference.txt"
cat "$dir/reference.txt"
grep -q '64000 floats, 256000 bytes -> 4032 blocks, 72576 bytes' "$dir/reference.txt"
grep -q 'signal to noise: [3-9][0-9]\.[0-9] dB' "$dir/reference.txt"
# y, dx and the gradients of the weights, in MXFP4.
[ "$("$dir/moe" | grep -c '1[4-9]\.[0-9] dB')" -eq 3 ]
if "$dir/convert" "$dir/no-such-pack" 2>"$dir/error.txt"; then
    echo "a missing pack is no error" >&2
    exit 1
fi
grep -q 'no-such-pack' "$dir/error.txt"

if [ -n "$mxgen" ]; then
    "$mxgen" build --target host --format mx9 --dtype f32 --max-rank 1 -o "$dir/host.mxdb"
    "$dir/convert" "$dir/host.mxdb" >"$dir/pack.txt"
    # Kernels give the reference's bytes, so the very same figure.
    cmp "$dir/reference.txt" "$dir/pack.txt"
fi
