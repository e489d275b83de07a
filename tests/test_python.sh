#!/bin/bash
# test_python.sh LIBMXRT CACHE: the Python package on CPU tensors, with PyTorch and numpy of Debian 13,
# which are fetched once into CACHE. Exit 77: they cannot be had here.
set -euo pipefail

if [ $# -ne 2 ]; then
    echo "usage: test_python.sh LIBMXRT CACHE" >&2
    exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
code=0
libraries=$("$here/fetch_torch.sh" "$2") || code=$?
if [ $code -eq 77 ]; then
    echo "skipped: PyTorch is not to be had here"
fi
[ $code -eq 0 ] || exit $code
export MXRT_LIBRARY=$1 MXRT_COMPILER=off
export PYTHONPATH=$here/../tools/python PYTHONDONTWRITEBYTECODE=1
cd "$here/../tools/python/tests"
exec "${libraries%/usr/lib/*}/python" -W ignore::DeprecationWarning -m unittest -v test_numpy test_torch \
    test_gemm test_example
