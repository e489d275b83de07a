#!/bin/bash
# test_real_hip.sh DRIVER_SYMBOLS CACHE: the HIP backend against the real HIP runtimes 5 and 7 on a
# machine without a GPU: every required entry point is there, and having no device is said clearly.
set -euo pipefail

if [ $# -ne 2 ]; then
    echo "usage: test_real_hip.sh DRIVER_SYMBOLS CACHE" >&2
    exit 2
fi
program=$1
cache=$2
here=$(cd "$(dirname "$0")" && pwd)

fetch() {
    local code=0
    libraries=$("$here/fetch_rocm.sh" "$1" "$cache") || code=$?
    if [ $code -eq 77 ]; then
        echo "skipped: ROCm $1 is not to be had here"
        return 1
    fi
    [ $code -eq 0 ] || exit 1
}

n_run=0
if fetch 5; then
    echo "ROCm 5:"
    LD_LIBRARY_PATH=$libraries "$program" hip "$libraries/libamdhip64.so.5"
    n_run=$((n_run + 1))
fi
# comgr 7 is on LLVM 22, which this release has.
llvm=/usr/lib/llvm-22/lib
if [ ! -e $llvm/libLLVM.so.22.1 ]; then
    echo "skipped: ROCm 7 needs libllvm22"
elif fetch 7; then
    echo "ROCm 7:"
    # No LD_LIBRARY_PATH of a sanitizer build: the private C library comes first.
    env -u LD_LIBRARY_PATH "$libraries/ld-linux-x86-64.so.2" \
        --library-path "$libraries:$llvm:/usr/lib/x86_64-linux-gnu" \
        "$program" hip "$libraries/libamdhip64.so.7"
    n_run=$((n_run + 1))
fi
[ $n_run -gt 0 ] || exit 77
