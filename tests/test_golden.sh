#!/usr/bin/env bash
# Machine code of the variants ranked first, aligned rows: wide accesses, no scratch, no spills, full
# occupancy, and no more vector instructions than golden/counts.txt allows.
# Arguments: mxgen, FileCheck, the folder of the checks.
set -euo pipefail
mxgen=$(realpath "$1") filecheck=$2 golden=$(realpath "$3")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failed=0

# Accesses that no operation may have, then those that one may not: an edge of a run of records goes
# in pieces of two bytes.
never=(scratch_ buffer_ flat_load flat_store 'global_load_dword{{(x2|x3)? }}'
    'global_store_dword{{(x2|x3)? }}' 'global_load_{{(u|s)}}byte' 'global_store_byte')
declare -A never_here=([to]='global_load_{{(u|s)}}short' [from]='global_store_short' [qdq]='_short')

# check FILE INPUT OPTION ..: one FileCheck run.
check()
{
    local file=$1 input=$2
    shift 2
    if ! "$filecheck" "$golden/$file" --input-file="$input" "$@" 2>"$dir/log"; then
        echo "FAILED $target $kernel: $file"
        head -20 "$dir/log"
        failed=1
    fi
}

while read -r target kernel hand; do
    [[ $target == '#'* || -z $target ]] && continue
    op=${kernel%%_*}
    "$mxgen" show "$kernel" --target "$target" --stage asm -o "$dir/asm"
    "$mxgen" show "$kernel" --target "$target" --stage info --json -o "$dir/info"
    options=("${never[@]/#/--implicit-check-not=}" "--implicit-check-not=${never_here[$op]}")
    sed '/s_endpgm/q' "$dir/asm" >"$dir/code"
    check "$op.check" "$dir/code" "${options[@]}"
    check info.check "$dir/info"
    # What a branch may skip and touches no memory, such as putting NaN right, is not the main path.
    count=$(awk '
        /^\.LBB[0-9_]+:/ && !loads { count = 0 }
        /^\.LBB[0-9_]+:/ && skipped[$1] && !touches { count = before }
        /s_cbranch_execz/ { delete skipped; skipped[$2 ":"] = 1; before = count; touches = 0 }
        /\t(global|ds)_/ { touches = 1 }
        /global_load_dwordx4/ { loads = 1 }
        /^\tv_/ { count++ }
        /global_store_dwordx4/ { last = count }
        END { print last + 0 }' "$dir/code")
    echo "$target $kernel: $count vector instructions, by hand $hand"
    if [[ $hand != - ]] && ((count * 10 > hand * 13)); then
        echo "FAILED $target $kernel: more than 1.3 times $hand"
        failed=1
    fi
done <"$golden/counts.txt"
exit $failed
