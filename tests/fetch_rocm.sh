#!/bin/bash
# fetch_rocm.sh 5|7 FOLDER: unpacks Debian's HIP runtime into FOLDER/rocmN, once, without installing.
#   5: this release's (5.2.3), run with the machine's own C library.
#   7: the experimental suite's (7.2.4) beside a newer C library, to be run through FOLDER's own ld.so.
# The mirror is the one in the machine's apt sources; those, apt's state and its cache stay as they
# are. Prints the folder of the libraries. Exit 77: cannot be had here, the reason is on stderr.
set -euo pipefail

usage() {
    echo "usage: fetch_rocm.sh 5|7 FOLDER" >&2
    exit 2
}

# shellcheck source-path=SCRIPTDIR source=debian_folder.sh
. "$(dirname "$0")/debian_folder.sh"

[ $# -eq 2 ] || usage
version=$1
case $version in
5)
    suites="bookworm"
    packages="libamdhip64-5 libamd-comgr2 libhsa-runtime64-1 libhsakmt1 libnuma1 libdrm2 libdrm-amdgpu1"
    ;;
7)
    suites="trixie experimental"
    packages="libamdhip64-7/experimental libamd-comgr3/experimental libhsa-runtime64-1/experimental
        libc6/trixie libstdc++6/trixie libgcc-s1/trixie libnuma1/trixie libelf1t64/trixie
        libdrm2/trixie libdrm-amdgpu1/trixie zlib1g/trixie libzstd1/trixie"
    ;;
*) usage ;;
esac
# Words of the lists are suites and package names.
# shellcheck disable=SC2086
debian_open "$2" "rocm$version" $suites
# shellcheck disable=SC2086
(cd "$debian_apt/debs" && debian_run download $packages)
for package in "$debian_apt"/debs/*.deb; do
    dpkg -x "$package" "$debian_result"
done
debian_close
