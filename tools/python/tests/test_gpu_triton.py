"""What `mxgen export --triton` wrote, run by the Triton of this machine. $MX_TEST_TRITON: the target's
folder of the export."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import torch

import mxrt
import mxrt.triton

EXPORT = pathlib.Path(os.environ["MX_TEST_TRITON"])
HERE = pathlib.Path(__file__).parent
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
QUANT_BIT = {"mx9": 8, "mx6": 5}
BINARY = "hsaco" if torch.version.hip else "cubin"


def plain_views(dtype):
    """(values [rows, last] on the CPU, the same in GPU memory with some strides)."""
    generator = torch.Generator().manual_seed(3)
    for rows, last in ((64, 64), (7, 37), (130, 16), (3, 9), (300, 1024), (1, 40), (1, 16), (20, 1),
                       (1, 1)):
        x = torch.randn(rows, last, generator=generator).to(dtype)
        gpu = x.cuda()
        yield x, gpu
        yield x, gpu.t().contiguous().t()
        room = torch.zeros(rows, 3, last + 1, 2, dtype=dtype, device="cuda")
        room[:, 1, 1:, 0] = gpu
        yield x, room[:, 1, 1:, 0]


class Kernels(unittest.TestCase):
    """Triton's loader and launcher give the reference's bytes."""

    def setUp(self):
        self.kernels, self.launched = {}, set()

    def kernel_for(self, stem, values):
        """The kernel that Triton would have compiled for these arguments."""
        ones = {name for name, value in values.items() if value == 1}
        for entry in json.loads((EXPORT / "index.json").read_text()):
            constants = {name for name, kind in entry["signature"] if kind == "constexpr"}
            if entry["folder"].startswith(stem + ".") and constants == ones:
                folder = entry["folder"]
                if folder not in self.kernels:
                    self.kernels[folder] = mxrt.triton.load(EXPORT / folder)
                self.launched.add(folder)
                return self.kernels[folder]
        self.fail(f"no {stem} where {ones} are 1")

    def launch(self, stem, tensors, values, rest):
        kernel = self.kernel_for(stem, values)
        grid = (-(-values["n_blocks"] // 64), 1, 1)
        kernel[grid](*tensors, *values.values(), 16, 64, 2, QUANT_BIT[stem.split("_")[1]], *rest)

    def test_to(self):
        for dtype_name, dtype in DTYPES.items():
            for format in QUANT_BIT:
                for x, view in plain_views(dtype):
                    expected = mxrt.convert_to_mx(x, format)
                    packed = torch.full(expected.shape, 0xEE, dtype=torch.uint8, device="cuda")
                    values = {"n_blocks": packed.shape[0], "last": x.shape[1],
                              "blocks_per_row": -(-x.shape[1] // 16),
                              "stride_in_row": view.stride(0), "stride_in_col": view.stride(1),
                              "stride_out_blk": packed.stride(0), "stride_out_byte": 1}
                    self.launch(f"to_{format}_{dtype_name}", (view, packed), values, ())
                    self.assertTrue(torch.equal(packed.cpu(), expected), (format, values))
        print(f"{len(self.launched)} kernels", end=" ", flush=True)

    def test_from(self):
        import triton.language as tl
        types = {"f32": tl.float32, "bf16": tl.bfloat16}
        for dtype_name, dtype in DTYPES.items():
            for format in QUANT_BIT:
                for x, _ in plain_views(dtype):
                    packed = mxrt.convert_to_mx(x, format)
                    expected = mxrt.convert_from_mx(packed, format, dtype, x.shape)
                    room = torch.zeros(packed.shape[0], 40, dtype=torch.uint8, device="cuda")
                    apart = room[:, 1:1 + 2 * packed.shape[1]:2]
                    apart.copy_(packed)
                    for source in (packed.cuda(), apart):
                        y = torch.empty(x.shape, dtype=dtype, device="cuda")
                        values = {"n_blocks": packed.shape[0], "last": x.shape[1],
                                  "blocks_per_row": -(-x.shape[1] // 16),
                                  "stride_in_blk": source.stride(0),
                                  "stride_in_byte": source.stride(1),
                                  "stride_out_row": y.stride(0), "stride_out_col": 1}
                        self.launch(f"from_{format}_{dtype_name}", (source, y), values,
                                    (types[dtype_name],))
                        self.assertTrue(torch.equal(y.cpu(), expected), (format, values))
        print(f"{len(self.launched)} kernels", end=" ", flush=True)


class Override(unittest.TestCase):
    """A program's own kernel is replaced by Triton's override folder, the program stays as it is."""

    ROWS, LAST = 9, 64

    def run_caller(self, folder, **environment):
        full = {**os.environ, "TRITON_CACHE_DIR": f"{folder}/cache", **environment}
        done = subprocess.run([sys.executable, str(HERE / "triton_caller.py"), str(self.ROWS),
                               str(self.LAST)], env=full, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return bytes.fromhex(done.stdout.split("bytes:")[1].strip())

    def test_kernel_override(self):
        with tempfile.TemporaryDirectory() as folder:
            before = self.run_caller(folder, TRITON_ALWAYS_COMPILE="1", TRITON_KERNEL_DUMP="1",
                                     TRITON_DUMP_DIR=f"{folder}/dump")
            self.assertEqual(set(before), {0x5A})
            dumped, = pathlib.Path(folder, "dump").glob(f"*/_convert_to_mx9_kernel.{BINARY}")
            ours = EXPORT / "to_mx9_f32.stride_in_col.stride_out_byte" / dumped.name
            target = pathlib.Path(folder, "override", dumped.parent.name)
            target.mkdir(parents=True)
            (target / dumped.name).write_bytes(ours.read_bytes())
            x = (torch.arange(self.ROWS * self.LAST).float() - 100).reshape(self.ROWS, self.LAST)
            expected = mxrt.convert_to_mx(x, "mx9").numpy().tobytes()
            self.assertEqual(self.run_caller(folder, TRITON_ALWAYS_COMPILE="1",
                                             TRITON_KERNEL_OVERRIDE="1",
                                             TRITON_OVERRIDE_DIR=f"{folder}/override"), expected)
            # From Triton's cache, without any setting.
            self.assertEqual(self.run_caller(folder), expected)


if __name__ == "__main__":
    unittest.main()
