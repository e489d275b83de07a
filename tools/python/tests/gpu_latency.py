"""Microseconds from a Python call to a launched kernel: the host's time a call, many calls in a row.

The tensors are so small that the GPU is never what is waited for. $MX_TEST_TRITON, if set: Triton's
launchers are measured, too.
"""

import os
import pathlib
import statistics
import time

import torch

import mxrt

ROUNDS, CALLS = 25, 400
LIMIT_US = 12


def measure(call):
    """The median of the rounds' means, after a warm-up, and the least."""
    for _ in range(50):
        call()
    torch.cuda.synchronize()
    means = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        for _ in range(CALLS):
            call()
        means.append((time.perf_counter() - begin) / CALLS * 1e6)
        torch.cuda.synchronize()
    return statistics.median(means), min(means)


def main():
    x = torch.randn(64, 512, device="cuda", dtype=torch.bfloat16)
    packed = mxrt.convert_to_mx(x, "mx9")
    calls = {
        "convert_to_mx": lambda: mxrt.convert_to_mx(x, "mx9"),
        "convert_from_mx": lambda: mxrt.convert_from_mx(packed, "mx9", torch.bfloat16, x.shape),
        "qdq": lambda: mxrt.qdq(x, "mx9"),
    }
    try:
        data, scales = mxrt.ocp_quantize(x, "mxfp4")
        calls["ocp_quantize"] = lambda: mxrt.ocp_quantize(x, "mxfp4")
        calls["ocp_dequantize"] = lambda: mxrt.ocp_dequantize(data, scales, "mxfp4", torch.bfloat16,
                                                              x.shape)
    except mxrt.Error as error:
        print(f"OCP formats are left out: {error}")
    others = {
        "torch.ops.mxrt.convert_to_mx": lambda: torch.ops.mxrt.convert_to_mx(x, "mx9"),
        "torch.empty": lambda: torch.empty(packed.shape, dtype=torch.uint8, device="cuda"),
        "torch.abs": lambda: torch.abs(x),
    }
    export = os.environ.get("MX_TEST_TRITON")
    if export:
        from mxrt import triton
        import triton_caller

        f32 = triton_caller.ramp(64, 512)
        kernel = triton.load(pathlib.Path(export, "to_mx9_f32.stride_in_col.stride_out_byte"))
        arguments = (f32, packed, packed.shape[0], 512, 32, 512, 1, 18, 1, 16, 64, 2, 8)
        grid = (packed.shape[0] // 64, 1, 1)
        others["Triton's launcher, our cubin"] = lambda: kernel[grid](*arguments)
        others["Triton's JIT, its kernel"] = lambda: triton_caller.call(f32, packed)
    slow = 0
    for name, call in {**calls, **others}.items():
        median, least = measure(call)
        verdict = ""
        if name in calls:
            verdict = "ok" if median < LIMIT_US else f"MISSED: more than {LIMIT_US} us"
            slow += median >= LIMIT_US
        print(f"{name:30s} {median:7.2f} us, least {least:7.2f}  {verdict}", flush=True)
    return 1 if slow else 0


if __name__ == "__main__":
    raise SystemExit(main())
