#!/bin/bash
# fetch_torch.sh FOLDER: unpacks Debian 13's PyTorch (2.6, for the CPU) with all that it needs, Python
# and the C library among it, into FOLDER/torch, once, without installing. PyPI has torch for x86-64 only
# with CUDA's libraries, 3 GB of them. Prints the folder of the libraries; FOLDER/torch/python is
# a program that runs that Python. Exit 77: cannot be had here, the reason is on stderr.
set -euo pipefail

[ $# -eq 1 ] || { echo "usage: fetch_torch.sh FOLDER" >&2 && exit 2; }
# shellcheck source-path=SCRIPTDIR source=debian_folder.sh
. "$(dirname "$0")/debian_folder.sh"

debian_open "$1" torch trixie
debian_run install -y --download-only python3-torch
# What no library here asks the loader for, a fifth of it all.
rm -f "$debian_apt"/cache/archives/{libllvm,libamd,libhsa,libze1,perl,dpkg_,passwd_,tar_,libx11}*.deb
# shellcheck disable=SC2016
printf '%s\0' "$debian_apt"/cache/archives/*.deb |
    xargs -0 -n 1 -P "$(nproc)" sh -c 'dpkg -x "$1" "$0"' "$debian_result" ||
    cannot "a package could not be unpacked"

libraries=$debian_result/$debian_libraries
cat >"$debian_result/python" <<END
#!/bin/sh
# The machine's own libraries come last: those that libmxrt needs.
export PYTHONHOME=$debian_result/usr
exec $libraries/ld-linux-x86-64.so.2 --library-path \\
    $libraries:$libraries/blas:$libraries/lapack:$debian_result/usr/lib:/usr/lib/x86_64-linux-gnu \\
    $debian_result/usr/bin/python3.13 "\$@"
END
chmod +x "$debian_result/python"
debian_close
