#!/usr/bin/env bash
# Whole files through a simulated AMD chip: mxgen builds the kernels, mxrt packs and unpacks with them
# in pieces, and every byte is what the host's reference gives.
# Arguments: mxgen, mxrt, the simulator's library.
set -euo pipefail
mxgen=$(realpath "$1") mxrt=$(realpath "$2") sim=$(realpath "$3")
export MXRT_HIP_LIBRARY=$sim MXSIM_ARCH=gfx942 MXRT_PACK= MXRT_COMPILER=off
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
"$mxgen" build --target gfx942 --op to,from --format mx6 --max-rank 1 -o kernels.mxdb >build.log
"$mxrt" devices | grep -q '^hip:0 .*gfx942'
"$mxrt" make-model in.safetensors --size small
for axis in -1 0; do
    options=(--quiet --max-memory 20K)
    "$mxrt" quantize in.safetensors -o host.q -f mx6 --axis "$axis" --quiet
    "$mxrt" dequantize host.q -o host.d --quiet
    "$mxrt" quantize in.safetensors -o chip.q -f mx6 --axis "$axis" "${options[@]}" \
        --device hip:0 --pack kernels.mxdb --verbose 2>log
    "$mxrt" dequantize chip.q -o chip.d "${options[@]}" --device hip:0 --pack kernels.mxdb
    grep -q 'hip:0: to mx6 .* kernels' log
    cmp host.q chip.q
    cmp host.d chip.d
done
# The OCP formats have scales apart; with options that take a whole tensor at once, too.
"$mxgen" build --target gfx942 --format mxfp4 --max-rank 1 -o ocp.mxdb >build.log
chip=(--quiet --device hip:0 --pack ocp.mxdb)
for options in '--axis -1' '--axis 0 --max-memory 20K' '--tiles' '--rounding stochastic --seed 3'; do
    # shellcheck disable=SC2086
    set -- -f mxfp4 $options
    "$mxrt" quantize in.safetensors -o host.q --quiet "$@"
    "$mxrt" quantize in.safetensors -o chip.q "${chip[@]}" "$@"
    "$mxrt" dequantize chip.q -o chip.d "${chip[@]}"
    "$mxrt" qdq in.safetensors -o chip.r "${chip[@]}" "$@"
    cmp host.q chip.q
    "$mxrt" compare host.q chip.d --quiet
    "$mxrt" compare chip.r chip.q "${chip[@]}"
done
"$mxrt" report in.safetensors --format mx6 --seconds 0 --device hip:0 --pack kernels.mxdb \
    --include 'marred|conv' --json | grep -q '"tensor":null'
# The simulator counts: 64 blocks are one wave of four lanes a block, or more.
bench=(--shape 16x64 --op to --format mx6 --dtype f32 --variant best --device hip:0 --pack kernels.mxdb)
"$mxrt" bench "${bench[@]}" --json >bench.json
grep -q '"device":"hip:0","variant":"mx_to_mx6_f32' bench.json
grep -Eq '"counts":\{"waves":[1-9][0-9]*,"lanes":[1-9].*"valu":[1-9].*"vgprs":[1-9]' bench.json
grep -q '"load_bytes":4096,"store_bytes":768,' bench.json
"$mxrt" bench "${bench[@]}" | grep -Eq '^to +mx6 +f32 +16x64 +-1 +flat +mx_to_mx6_f32_flat'
if "$mxrt" quantize in.safetensors -o none -f mx9 --device hip:0 --pack kernels.mxdb 2>log; then
    echo "a pack without such kernels was accepted" >&2
    exit 1
fi
[ ! -e none ]
grep -q 'mx9' log
echo "same bytes"
