#!/bin/sh
# source_hash.sh OUTPUT DEPFILE FOLDER..: a header with the SHA-256 of every C source in the folders,
# so that a pack tells which generator made it. Paths are left out: a copy of the tree is the same
# generator.
set -eu
output=$1 depfile=$2
shift 2
files=$(find "$@" -maxdepth 1 -name '*.[ch]' -o -maxdepth 1 -name '*.cpp' | LC_ALL=C sort)
hash=$(for file in $files; do
    printf '%s\n' "${file##*/}"
    cat "$file"
done | sha256sum | cut -c1-64)
printf '#define MXGEN_SOURCE_HASH "%s"\n' "$hash" >"$output"
printf '%s: %s\n' "$output" "$(echo $files)" >"$depfile"
