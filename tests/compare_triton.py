"""compare_triton.py MXGEN SIMULATOR: what mxgen makes against what Triton (this Python's) makes for gfx942.

Exported kernels: Triton compiles a kernel of the same interface for each; metadata and argument
layouts must be equal. A row scaling: mxgen compiles Triton's LLVM IR, and both objects give the same
bytes on the simulated chip, launched alike.
"""

import array
import ctypes
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import ASTSource

CHIP, TARGET = "gfx942", GPUTarget("hip", "gfx942", 64)
READELF = "llvm-readelf-22"
# What a program's own kernel may set as it likes, or what tells Triton's files apart.
FREE = {"hash", "extern_libs", "debug", "sanitize_overflow", "enable_fp_fusion", "triton_version",
        "supported_fp8_dtypes", "allowed_dot_input_precisions", "schedule_hint", "num_stages",
        "deprecated_fp8_dot_operand_dtypes", "shared", "ir_override", "target"}


@triton.jit
def to_kernel(x_ptr, packed_ptr, n_blocks, last, blocks_per_row, stride_in_row, stride_in_col,
              stride_out_blk, stride_out_byte, BLOCK_SIZE: tl.constexpr,
              BLOCKS_PER_PROG: tl.constexpr, PRIME_GROUP: tl.constexpr, QUANT_BIT: tl.constexpr):
    at = tl.program_id(0) * n_blocks + last + blocks_per_row
    x = tl.load(x_ptr + at * stride_in_row + stride_in_col)
    tl.store(packed_ptr + at * stride_out_blk + stride_out_byte, x.to(tl.uint8))


@triton.jit
def from_kernel(packed_ptr, y_ptr, n_blocks, last, blocks_per_row, stride_in_blk, stride_in_byte,
                stride_out_row, stride_out_col, BLOCK_SIZE: tl.constexpr,
                BLOCKS_PER_PROG: tl.constexpr, PRIME_GROUP: tl.constexpr, QUANT_BIT: tl.constexpr,
                OUT_DTYPE: tl.constexpr):
    at = tl.program_id(0) * n_blocks + last + blocks_per_row
    p = tl.load(packed_ptr + at * stride_in_blk + stride_in_byte)
    tl.store(y_ptr + at * stride_out_row + stride_out_col, p.to(OUT_DTYPE))


@triton.jit
def row_scale_kernel(x_ptr, y_ptr, stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0.0)
    top = tl.max(tl.abs(x), axis=0)
    top = tl.where(top > 0, top, 1.0)
    tl.store(y_ptr + row * stride + cols, x / top, mask=mask)


def compiled(function, types, constants, attributes=None):
    names = list(types)
    source = ASTSource(function, types, constexprs={(names.index(n),): v for n, v in constants.items()},
                       attrs=attributes or {})
    return triton.compile(source, target=TARGET, options={"num_warps": 4})


def layout(path):
    """Of an object's one kernel: arguments, sizes and names as its metadata note has them."""
    notes = subprocess.run([READELF, "--notes", str(path)], capture_output=True, text=True,
                           check=True).stdout
    arguments = [(int(re.search(r"\.offset: +(\d+)", text)[1]), int(re.search(r"\.size: +(\d+)", text)[1]),
                  re.search(r"\.value_kind: +(\w+)", text)[1])
                 for text in re.split(r"\n +- ", notes.split(".args:")[1].split(".group_segment")[0])
                 if ".offset:" in text]
    one = {key: re.search(rf"\.{key}: +(\S+)", notes)[1]
           for key in ("symbol", "wavefront_size", "max_flat_workgroup_size")}
    shown = [a for a in arguments if not a[2].startswith("hidden_")]
    return shown, one


def compare_export(folder, mxgen):
    subprocess.run([mxgen, "export", "--triton", str(folder), "--target", CHIP], check=True,
                   stdout=subprocess.DEVNULL)
    base = folder / CHIP
    entries = json.loads((base / "index.json").read_text())
    for entry in entries:
        types = dict(entry["signature"])
        constants = {n: v for n, v in entry["constants"].items()}
        types.update((n, "constexpr") for n in constants)
        if "OUT_DTYPE" in constants:
            constants["OUT_DTYPE"] = {"fp32": tl.float32, "bf16": tl.bfloat16}[constants["OUT_DTYPE"]]
        function = to_kernel if entry["folder"].startswith("to_") else from_kernel
        theirs = compiled(function, types, constants)
        where = base / entry["folder"] / entry["kernel"]
        ours = json.loads(pathlib.Path(f"{where}.json").read_text())
        expected = theirs.metadata._asdict()
        missing = set(expected) - set(ours)
        assert not missing or triton.__version__ != ours["triton_version"], (entry["folder"], missing)
        for key in set(expected) & set(ours) - FREE:
            value = list(expected[key]) if isinstance(expected[key], tuple) else expected[key]
            if key == "name":
                value = entry["kernel"]
            assert ours[key] == value, (entry["folder"], key, ours[key], value)
        their_object = folder / "theirs.hsaco"
        their_object.write_bytes(theirs.asm["hsaco"])
        their_layout, our_layout = layout(their_object), layout(f"{where}.hsaco")
        assert our_layout[0] == their_layout[0], (entry["folder"], our_layout[0], their_layout[0])
        assert our_layout[1] == {**their_layout[1], "symbol": entry["kernel"] + ".kd"}, our_layout[1]
    return len(entries)


class Chip:
    """The simulated chip, by the interface of HIP."""

    def __init__(self, path):
        os.environ["MXSIM_ARCH"] = CHIP
        self.hip = ctypes.CDLL(path)

    def call(self, name, *arguments):
        status = getattr(self.hip, name)(*arguments)
        assert status == 0, (name, status)

    def run(self, image, name, shared, x, stride, n_cols, rows):
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        memory = [ctypes.c_void_p() for _ in range(2)]
        out = array.array("f", [-1.0] * len(x))
        size = len(x) * 4
        self.call("hipModuleLoadData", ctypes.byref(module), image)
        self.call("hipModuleGetFunction", ctypes.byref(function), module, name)
        for pointer, data in zip(memory, (x, out)):
            self.call("hipMalloc", ctypes.byref(pointer), ctypes.c_size_t(size))
            self.call("hipMemcpy", pointer, data.buffer_info()[0] and ctypes.c_void_p(data.buffer_info()[0]),
                      ctypes.c_size_t(size), 1)
        values = [*memory, ctypes.c_int32(stride), ctypes.c_int32(n_cols), ctypes.c_void_p(),
                  ctypes.c_void_p()]
        params = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
        self.call("hipModuleLaunchKernel", function, rows, 1, 1, 256, 1, 1, shared, None, params, None)
        self.call("hipMemcpy", ctypes.c_void_p(out.buffer_info()[0]), memory[1], ctypes.c_size_t(size), 2)
        return out


def compare_row_scale(folder, mxgen, simulator):
    rows, stride, n_cols = 5, 1024, 912
    divisible = [["tt.divisibility", 16]]
    theirs = compiled(row_scale_kernel, {"x_ptr": "*fp32", "y_ptr": "*fp32", "stride": "i32",
                                         "n_cols": "i32", "BLOCK": "constexpr"}, {"BLOCK": 1024},
                      {(i,): divisible for i in range(4)})
    (folder / "row_scale.llir").write_text(theirs.asm["llir"])
    pack, ours, their_object = folder / "p.mxdb", folder / "ours.hsaco", folder / "theirs.hsaco"
    their_object.write_bytes(theirs.asm["hsaco"])
    shared = theirs.metadata.shared
    for words in (["compile", str(folder / "row_scale.llir"), "--target", CHIP, "--lds", str(shared),
                   "-o", str(pack)],
                  ["show", "row_scale_kernel", "--pack", str(pack), "--stage", "object", "-o", str(ours)]):
        subprocess.run([mxgen, *words], check=True, stdout=subprocess.DEVNULL)
    assert layout(ours) == layout(their_object), (layout(ours), layout(their_object))
    x = array.array("f", [math.sin(i) * (i % 77) if i >= stride else 0.0 for i in range(rows * stride)])
    chip = Chip(simulator)
    results = [chip.run(path.read_bytes(), b"row_scale_kernel", shared, x, stride, n_cols, rows)
               for path in (ours, their_object)]
    assert results[0] == results[1] and results[0][stride + 1] != -1.0


def main(mxgen, simulator):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        os.environ["TRITON_CACHE_DIR"] = str(folder / "cache")
        print(f"Triton {triton.__version__}: {compare_export(folder, mxgen)} exported kernels")
        compare_row_scale(folder, mxgen, simulator)
        print("row_scale: the same bytes")


if __name__ == "__main__":
    main(*sys.argv[1:])
