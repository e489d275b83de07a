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

cannot() {
    echo "fetch_rocm.sh: $1" >&2
    exit 77
}

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
if ! command -v apt-get >/dev/null || ! command -v dpkg >/dev/null; then
    cannot "no apt-get or dpkg here"
fi
[ "$(dpkg --print-architecture)" = amd64 ] || cannot "the libraries are for amd64 only"

mkdir -p "$2"
folder=$(cd "$2" && pwd)
result=$folder/rocm$version
libraries=$result/usr/lib/x86_64-linux-gnu
exec 9>"$folder/lock"
flock 9
if [ -e "$result/.complete" ]; then
    echo "$libraries"
    exit 0
fi

mirror=$( (cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null || true) |
    sed -nE 's,^(URIs:|deb( +\[[^]]*\])?) +([a-z+]+:[^ ]+/debian/?)( .*)?$,\3,p' | sed 1q)
[ -n "$mirror" ] || cannot "the apt sources name no Debian mirror"
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
[ -e $keyring ] || cannot "no $keyring: install debian-archive-keyring"

apt=$folder/apt$version
rm -rf "$apt" "$result"
mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial" "$apt/debs"
touch "$apt/status"
for suite in $suites; do
    echo "deb [signed-by=$keyring] $mirror $suite main"
done >"$apt/sources.list"
cat >"$apt/apt.conf" <<END
Dir::State "$apt/state";
Dir::State::status "$apt/status";
Dir::Cache "$apt/cache";
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "/nonexistent";
Acquire::Check-Valid-Until "false";
Acquire::Languages "none";
Acquire::Retries "1";
Acquire::http::Timeout "20";
APT::Sandbox::User "$(id -un)";
APT::Architecture "amd64";
END
export APT_CONFIG=$apt/apt.conf
apt-get update --error-on=any >"$apt/log" 2>&1 || cannot "apt-get update: $(tail -n 1 "$apt/log")"
# Words of the list are package names.
# shellcheck disable=SC2086
(cd "$apt/debs" && apt-get download $packages >"$apt/log" 2>&1) ||
    cannot "apt-get download: $(tail -n 1 "$apt/log")"
for package in "$apt"/debs/*.deb; do
    dpkg -x "$package" "$result"
done
rm -rf "$apt"
touch "$result/.complete"
echo "$libraries"
