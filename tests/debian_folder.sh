# shellcheck shell=bash
# Sourced by the scripts that unpack packages of Debian into a folder of the build, without installing
# them: the machine's own packages, apt's sources, its state and its cache stay as they are. The mirror
# is the one in the machine's apt sources.

cannot() {
    echo "$(basename "$0"): $1" >&2
    exit 77
}

# debian_open FOLDER NAME SUITE ..: takes the lock of FOLDER, and exits 0 after printing
# FOLDER/NAME/$debian_libraries if that is there already; else an apt of its own knows the suites, and
# $debian_apt is a folder for its files, $debian_result the one to fill.
debian_libraries=usr/lib/x86_64-linux-gnu
debian_open() {
    local name=$2 folder mirror keyring suite
    if ! command -v apt-get >/dev/null || ! command -v dpkg >/dev/null; then
        cannot "no apt-get or dpkg here"
    fi
    [ "$(dpkg --print-architecture)" = amd64 ] || cannot "the libraries are for amd64 only"

    mkdir -p "$1"
    folder=$(cd "$1" && pwd)
    shift 2
    debian_result=$folder/$name
    debian_apt=$folder/apt-$name
    exec 9>"$folder/lock"
    flock 9
    if [ -e "$debian_result/.complete" ]; then
        echo "$debian_result/$debian_libraries"
        exit 0
    fi

    mirror=$( (cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null || true) |
        sed -nE 's,^(URIs:|deb( +\[[^]]*\])?) +([a-z+]+:[^ ]+/debian/?)( .*)?$,\3,p' | sed 1q)
    [ -n "$mirror" ] || cannot "the apt sources name no Debian mirror"
    keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    [ -e $keyring ] || cannot "no $keyring: install debian-archive-keyring"

    rm -rf "$debian_apt" "$debian_result"
    mkdir -p "$debian_apt/state/lists/partial" "$debian_apt/cache/archives/partial" \
        "$debian_apt/debs" "$debian_result"
    touch "$debian_apt/status"
    for suite in "$@"; do
        echo "deb [signed-by=$keyring] $mirror $suite main"
    done >"$debian_apt/sources.list"
    cat >"$debian_apt/apt.conf" <<END
Dir::State "$debian_apt/state";
Dir::State::status "$debian_apt/status";
Dir::Cache "$debian_apt/cache";
Dir::Etc::sourcelist "$debian_apt/sources.list";
Dir::Etc::sourceparts "/nonexistent";
Acquire::Check-Valid-Until "false";
Acquire::Languages "none";
Acquire::Retries "1";
Acquire::http::Timeout "20";
APT::Sandbox::User "$(id -un)";
APT::Architecture "amd64";
APT::Install-Recommends "false";
END
    export APT_CONFIG=$debian_apt/apt.conf
    debian_run update --error-on=any
}

# debian_run ARGUMENT ..: apt-get, or exit 77.
debian_run() {
    apt-get "$@" >"$debian_apt/log" 2>&1 || cannot "apt-get $1: $(tail -n 1 "$debian_apt/log")"
}

# debian_close: marks the folder as whole and prints where its libraries are.
debian_close() {
    rm -rf "$debian_apt"
    touch "$debian_result/.complete"
    echo "$debian_result/$debian_libraries"
}
