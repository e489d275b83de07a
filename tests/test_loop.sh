#!/usr/bin/env bash
# Main loops of grouped GEMM. AMD's chips: the instructions that golden/loop_CHIP.check names, no scratch
# memory; 256 x 256 x 128 keeps the matrix unit of gfx942 and gfx950 busy for 75 % of the time, by the model
# of mxgen loop, with wide accesses but for scales.
# Arguments: mxgen, FileCheck, the folder of the checks, a pack with gfx950's kernels.
set -euo pipefail
mxgen=$(realpath "$1") filecheck=$2 golden=$(realpath "$3") pack=$(realpath "$4")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failed=0

fail()
{
    echo "FAILED $1"
    failed=1
}

# code CHIP KERNEL [OPTION ..]: the loop's code is as wanted; its figures go to $dir/figures.
code()
{
    local chip=$1 kernel=$2
    shift 2
    "$mxgen" loop "$kernel" --target "$chip" --code "$dir/code" --json "$@" >"$dir/figures"
    "$filecheck" "$golden/loop_$chip.check" --input-file="$dir/code" --implicit-check-not=scratch_ \
        --implicit-check-not=buffer_ --implicit-check-not=flat_ || fail "$chip: the loop's code"
}

# figure NAME: of the JSON in $dir/figures.
figure()
{
    sed -n "s/^ *\"$1\": \([0-9.]*\),*\$/\1/p" "$dir/figures"
}

# busy CHIP NARROW_LOADS: the model's figures of the kernel before.
busy()
{
    local chip=$1 narrow=$2 name
    cat "$dir/figures"
    for name in scratch_bytes scratch; do
        [ "$(figure $name)" = 0 ] || fail "$chip: $name"
    done
    [ "$(figure loads_narrow)" -le "$narrow" ] || fail "$chip: narrow loads"
    awk -v busy="$(figure busy)" 'BEGIN { exit !(busy >= 0.75 && busy <= 1) }' || fail "$chip: busy"
}

large=mx_gemm_rows_mxfp4_mxfp4_bf16_exact_m256_n256_k128_w8_t32_g8_s3_q8
code gfx950 $large --pack "$pack"
busy gfx950 2 # scales of two K-steps
code gfx942 $large
busy gfx942 6 # scales of six rows
code gfx90a mx_gemm_rows_mxfp4_mxfp4_bf16_exact_m16_n128_k128_w4_t16_g8_s3_q1
code gfx1100 mx_gemm_rows_mxfp4_mxfp4_bf16_exact_m16_n128_k128_w8_t16_g8_s3_q1
code gfx1201 mx_gemm_rows_mxfp4_mxfp4_bf16_exact_m16_n128_k128_w8_t16_g8_s3_q1

# refused TARGET TEXT: a conversion's kernel, and the message.
refused()
{
    ! "$mxgen" loop to_mx9_bf16 --target "$1" 2>"$dir/log" && grep -q "$2" "$dir/log" ||
        fail "$1: what has no such loop"
}

refused gfx942 'no loop with matrix instructions'
refused host "only code for AMD's chips"

# sm_90a: wgmma, nothing in local memory.
ptx()
{
    "$mxgen" show "$1" --target sm_90a --stage object -o "$dir/ptx"
    [ -n "$ptxas" ] || return 0
    "$ptxas" -arch=sm_90a -v -o /dev/null "$dir/ptx" >"$dir/log" 2>&1
    grep -q ' 0 bytes spill stores, 0 bytes spill loads' "$dir/log" || fail "sm_90a: $1 spills"
}

ptxas=$(PATH=$PATH:/usr/local/cuda/bin command -v ptxas || true)
ptx mx_gemm_rows_mxfp4_mxfp4_bf16_exact_m32_n128_k128_w8_t16_g8_s3_q1
ptx mx_gemm_rows_mxfp4_mxfp4_bf16_fast_n192_g8_s5_v8
"$filecheck" "$golden/gemm_sm_90a.check" --input-file="$dir/ptx" || fail "sm_90a: the code"
exit $failed
