# Sourced by tools/test and tools/demo: installs what a stock Debian 12 lacks and builds.
# The caller has changed to the root of the source tree.

# LLVM 22 comes from bookworm's security suite.
setup_packages=(
    gcc g++ libc6-dev pkg-config meson ninja-build
    libsqlite3-dev libzstd-dev libjansson-dev libxxhash-dev libelf-dev libdlpack-dev check
    llvm-22-dev llvm-22-tools liblld-22-dev libmlir-22-dev zlib1g-dev
)

setup_installed=0 # whether setup_install had to

setup_say()
{
    printf '\n== %s\n' "$*"
}

setup_missing_packages()
{
    local package
    for package in "$@"; do
        if [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" != installed ]; then
            echo "$package"
        fi
    done
}

# setup_install [PACKAGE ..]: installs what is missing of the above and of these; downloads lists only
# then.
setup_install()
{
    local missing
    mapfile -t missing < <(setup_missing_packages "${setup_packages[@]}" "$@")
    if [ "${#missing[@]}" -eq 0 ]; then
        return 0
    fi
    if [ "$(id -u)" -ne 0 ]; then
        echo "missing packages: ${missing[*]}: run this as root, or install them with apt-get" >&2
        return 1
    fi
    setup_say "installing ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -q </dev/null
    apt-get install -q -y --no-install-recommends "${missing[@]}" </dev/null
    setup_installed=1
}

setup_jobs()
{
    nproc
}

# setup_configure DIR [MESON OPTION ..]: configures once, and again when packages have come, since what
# was not found may be there now. Else ninja reconfigures when files change.
setup_configure()
{
    local dir=$1
    shift
    if [ ! -f "$dir/build.ninja" ]; then
        rm -rf "$dir"
        meson setup "$dir" "$@" </dev/null
    elif [ "$setup_installed" -eq 1 ]; then
        meson setup --reconfigure "$dir" "$@" </dev/null
    fi
}

# setup_build DIR [TARGET ..]
setup_build()
{
    local dir=$1
    shift
    ninja -C "$dir" -j "$(setup_jobs)" "$@" </dev/null
}
