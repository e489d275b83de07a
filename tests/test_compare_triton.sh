#!/bin/bash
# test_compare_triton.sh MXGEN SIMULATOR CACHE: what mxgen makes against what Triton of PyPI makes, which is
# fetched once into CACHE. Exit 77: it cannot be had here.
set -euo pipefail

[ $# -eq 3 ] || { echo "usage: test_compare_triton.sh MXGEN SIMULATOR CACHE" >&2 && exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
code=0
triton=$("$here/fetch_triton.sh" "$3") || code=$?
[ $code -ne 77 ] || echo "skipped: Triton is not to be had here"
[ $code -eq 0 ] || exit $code
PYTHONPATH=$triton PYTHONDONTWRITEBYTECODE=1 exec python3 -W ignore "$here/compare_triton.py" "$1" "$2"
