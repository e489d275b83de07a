"""Kernels that `mxgen export --triton` wrote, by Triton's own loader and launcher.

    kernel = mxrt.triton.load("DIR/sm_90a/to_mx9_f32.stride_in_col.stride_out_byte")
    kernel[(grid, 1, 1)](x, packed, n_blocks, last, blocks_per_row, x.stride(0), 1, 18, 1, 16, 64, 2, 8)

As for a compiled kernel of Triton's, all arguments are given, the constants too; grid is
ceil(n_blocks / 64). mxgen's README.txt there tells how to override a program's kernels.
"""

import json
import pathlib

__all__ = ["load", "signature"]


class _Source:
    """What Triton's launcher asks of a kernel's source: the argument list."""

    def __init__(self, names, types, constants):
        self.name = None
        self.arg_names = names
        self.launch_metadata = None
        self.fn = self
        self.signature = types
        self.constants = {(names.index(name),): value for name, value in constants.items()}
        self.attrs = {}


def _entry(folder):
    index = folder.parent / "index.json"
    for entry in json.loads(index.read_text()):
        if entry["folder"] == folder.name:
            return entry
    raise ValueError(f"{index} does not list {folder.name}")


def signature(folder):
    """{argument: Triton's type}, meta-parameters included, and {constant argument: value}."""
    entry = _entry(pathlib.Path(folder))
    types = dict(entry["signature"])
    types.update((name, "constexpr") for name in entry["constants"])
    return types, entry["constants"]


def load(folder):
    """Triton's CompiledKernel of a folder of the export, ready to be launched on this GPU."""
    from triton.compiler.compiler import CompiledKernel

    folder = pathlib.Path(folder)
    types, constants = signature(folder)
    kernel = _entry(folder)["kernel"]
    group = {path.name: str(path) for path in sorted(folder.glob(kernel + ".*"))}
    metadata = json.loads((folder / (kernel + ".json")).read_text())
    binary = kernel + (".hsaco" if metadata["target"]["backend"] == "hip" else ".cubin")
    if binary not in group:
        raise FileNotFoundError(f"{folder / binary} is not there: mxgen export makes it where it has "
                                "ptxas (--ptxas)")
    source = _Source(list(types), types, constants)
    source.name = kernel
    return CompiledKernel(source, group, metadata["hash"])
