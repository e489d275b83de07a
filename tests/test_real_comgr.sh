#!/bin/bash
# test_real_comgr.sh MXGEN MXGEN_COMGR MXRT SIMULATOR CACHE: code objects by the comgr of this release
# (2.4, LLVM 15, gfx90a) and by the one of ROCm 7 (3.0, LLVM 22, every chip), against those made in
# mxgen's process, and on the simulator. 77: neither is to be had here.
set -euo pipefail

if [ $# -ne 5 ]; then
    echo "usage: test_real_comgr.sh MXGEN MXGEN_COMGR MXRT SIMULATOR CACHE" >&2
    exit 2
fi
mxgen=$(realpath "$1") helper=$(realpath "$2") mxrt=$(realpath "$3") sim=$(realpath "$4") cache=$5
PATH=$PATH:/sbin
here=$(cd "$(dirname "$0")" && pwd)
llvm=/usr/lib/llvm-22
export AMD_COMGR_CACHE=0 MXRT_PACK= MXRT_COMPILER=off
unset MXGEN_COMGR_HELPER MXGEN_COMGR_LIBRARY
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# Some in f32, for which these kernels serve.
tensors=(--format mx6 --quiet --include 'attn.[ko]|down')
selection=(--op 'to,from' --format mx6 --dtype f32 --layout 'flat,rows,tiles' --max-rank 1)

fail() {
    echo "FAIL: $1" >&2
    exit 1
}

# objects PACK CHIP FOLDER: the code objects, without the section that names the linker.
objects() {
    mkdir -p "$3"
    "$mxgen" list --target "$2" "$1" | grep -o 'mx_[a-z0-9_]*' | while read -r kernel; do
        "$mxgen" show "$kernel" --target "$2" --pack "$1" --stage object -o "$3/$kernel"
        "$llvm/bin/llvm-objcopy" --remove-section=.comment "$3/$kernel"
    done
    [ -n "$(ls "$3")" ] || fail "no kernels for $2 in $1"
}

# loaded FOLDER: leaves of each object what is loaded. Since release 17 the linker pads the last
# segment by a section without content, which moves what is behind it.
loaded() {
    for object in "$1"/*; do
        local sections=()
        for name in note dynsym gnu.hash hash dynstr rodata text dynamic; do
            sections+=(--dump-section ".$name=$object.$name")
        done
        "$llvm/bin/llvm-objcopy" "${sections[@]}" "$object" "$dir/copy"
        rm "$object"
    done
}

# What LLVM's own compiler makes of the code that mxgen shows. In mxgen's process the order of the uses
# of a value, which bitcode does not keep, can make the register allocator choose otherwise.
by_llc() {
    mkdir -p "$2"
    for kernel in $("$mxgen" list --target "$1" "$dir/llvm" | grep -o 'mx_[a-z0-9_]*'); do
        "$mxgen" show "$kernel" --target "$1" --stage llvm -o "$dir/k.ll"
        "$llvm/bin/llc" -O3 -relocation-model=pic -mcpu="$1" -filetype=obj "$dir/k.ll" -o "$dir/k.o"
        "$llvm/bin/ld.lld" -shared --no-undefined "$dir/k.o" -o "$2/$kernel"
        "$llvm/bin/llvm-objcopy" --remove-section=.comment "$2/$kernel"
    done
}

# run CHIP PACK: a file through the simulated chip, every byte as the host's reference has it.
run() {
    "$mxrt" quantize "$dir/in" -o "$dir/chip.q" "${tensors[@]}" --device hip:0 --pack "$2" \
        --verbose 2>"$dir/log" || fail "$(cat "$dir/log")"
    grep -q 'hip:0: to mx6 f32 .* kernels' "$dir/log" || fail "the kernels of $2 did not run"
    "$mxrt" dequantize "$dir/chip.q" -o "$dir/chip.d" --quiet --device hip:0 --pack "$2"
    cmp "$dir/host.q" "$dir/chip.q"
    cmp "$dir/host.d" "$dir/chip.d"
    echo "$1: the objects of $(basename "$2") give the reference's bytes"
}

fetch() {
    local code=0
    libraries=$("$here/fetch_rocm.sh" "$1" "$cache") || code=$?
    if [ $code -eq 77 ]; then
        echo "skipped: ROCm $1 is not to be had here"
        return 1
    fi
    [ $code -eq 0 ] || exit 1
}

expect() { # expect TEXT COMMAND ..: fails and says TEXT
    local text=$1
    shift
    if "$@" >"$dir/log" 2>&1; then
        fail "this was accepted: $*"
    fi
    grep -q -- "$text" "$dir/log" || fail "no \"$text\" in: $(cat "$dir/log")"
}

"$mxrt" make-model "$dir/in" --size small
"$mxrt" quantize "$dir/in" -o "$dir/host.q" "${tensors[@]}"
"$mxrt" dequantize "$dir/host.q" -o "$dir/host.d" --quiet
export MXRT_HIP_LIBRARY=$sim

n_run=0
# Installed, it is found by its name; else it is fetched.
if ldconfig -p | grep -q 'libamd_comgr\.so\.2' ||
    { fetch 5 && export MXGEN_COMGR_LIBRARY=$libraries/libamd_comgr.so.2; }; then
    export MXSIM_ARCH=gfx90a
    "$mxgen" build --target gfx90a "${selection[@]}" -o "$dir/llvm"
    "$mxgen" build --target gfx90a "${selection[@]}" --codegen comgr -o "$dir/comgr5" | tee "$dir/log"
    grep -q 'by comgr 2\.[0-9]*, LLVM 15' "$dir/log" || fail "not by comgr 2"
    objects "$dir/llvm" gfx90a "$dir/o-llvm"
    objects "$dir/comgr5" gfx90a "$dir/o-comgr5"
    loaded "$dir/o-llvm"
    loaded "$dir/o-comgr5"
    diff -r "$dir/o-llvm" "$dir/o-comgr5"
    run gfx90a "$dir/comgr5"
    expect 'is on LLVM 15.*use --codegen comgr-link' \
        "$mxgen" build --target gfx90a "${selection[@]}" --codegen comgr-bitcode -o "$dir/none"
    expect 'does not know gfx942; it knows .*gfx90a' \
        "$mxgen" build --target gfx942 "${selection[@]}" --codegen comgr -o "$dir/none"
    n_run=$((n_run + 1))
fi
if [ ! -e $llvm/lib/libLLVM.so.22.1 ]; then
    echo "skipped: ROCm 7 needs libllvm22"
elif fetch 7; then
    # The newer C library serves this one process; mxgen finds it behind the script.
    printf '#!/bin/sh\nexec env -u LD_LIBRARY_PATH "%s" --library-path "%s" "%s" "$@"\n' \
        "$libraries/ld-linux-x86-64.so.2" "$libraries:$llvm/lib:/usr/lib/x86_64-linux-gnu" \
        "$helper" >"$dir/helper"
    chmod +x "$dir/helper"
    export MXGEN_COMGR_HELPER=$dir/helper MXGEN_COMGR_LIBRARY=$libraries/libamd_comgr.so.3
    for how in llvm comgr comgr-link; do
        "$mxgen" build --target amdgpu "${selection[@]}" --codegen $how -o "$dir/$how" | tee "$dir/log"
    done
    grep -q 'by comgr 3\.[0-9]*, LLVM 22' "$dir/log" || fail "not by comgr 3"
    for chip in gfx90a gfx942 gfx950 gfx1100 gfx1201; do
        rm -rf "$dir"/o-*
        for how in llvm comgr comgr-link; do
            objects "$dir/$how" $chip "$dir/o-$how"
        done
        diff -r "$dir/o-llvm" "$dir/o-comgr-link"
        by_llc $chip "$dir/o-llc"
        MXSIM_ARCH=$chip run $chip "$dir/comgr"
        MXSIM_ARCH=$chip run $chip "$dir/comgr-link"
        diff -r "$dir/o-llc" "$dir/o-comgr"
    done
    n_run=$((n_run + 1))
fi
[ $n_run -gt 0 ] || exit 77
