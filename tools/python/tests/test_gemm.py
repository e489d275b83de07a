"""Grouped GEMM and the linear layer of experts. $MX_TEST_DEVICE: cpu (default) or cuda."""

import os
import unittest

import torch

import mxrt

DEVICE = torch.device(os.environ.get("MX_TEST_DEVICE", "cpu"))
BACKEND = os.environ.get("MX_TEST_BACKEND", "inductor" if DEVICE.type == "cuda" else "aot_eager")
QUANTISED = ("mxfp4", "mxfp8e4m3", "mxfp8e5m2")


def randn(*shape, dtype=torch.float32, seed=7):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator).to(DEVICE, dtype)


def int64(*values):
    return torch.tensor(values, dtype=torch.int64, device=DEVICE)


def operand(x, format, axis=-1):
    """(data, scales, the values that they stand for), the axis last."""
    x = x.transpose(axis, -1).contiguous()
    if format == "bf16":
        return x.bfloat16(), None, x.bfloat16().double()
    data, scales = mxrt.ocp_quantize(x, format)
    return (data.reshape(*x.shape[:-1], -1), scales.reshape(*x.shape[:-1], -1),
            mxrt.ocp_qdq(x, format).double())


def rows_product(left, right, offsets):
    out = torch.zeros(left.shape[0], right.shape[1], dtype=torch.float64, device=left.device)
    for g in range(right.shape[0]):
        own = slice(offsets[g], offsets[g + 1])
        out[own] = left[own] @ right[g].T
    return out


class Device(unittest.TestCase):
    def setUp(self):
        try:
            left, right = operand(randn(1, 32), "mxfp4"), operand(randn(1, 8, 32), "mxfp4")
            mxrt.grouped_gemm(*left[:2], *right[:2], int64(0, 1))
        except mxrt.Error as error:
            self.skipTest(f"no grouped GEMM and quantiser on this device: {error}")

    def assert_near(self, out, expected, limit=2e-3):
        error = (out.double() - expected).norm() / expected.norm()
        self.assertLess(error.item(), limit)


class Products(Device):
    def test_rows(self):
        offsets = [0, 5, 5, 37, 70]
        for left_format, right_format in [(a, a) for a in QUANTISED] + [("mxfp8e4m3", "mxfp4"),
                                                                        ("bf16", "mxfp4")]:
            left = operand(randn(70, 96), left_format)
            right = operand(randn(4, 40, 96, seed=8), right_format)
            out = mxrt.grouped_gemm(*left[:2], *right[:2], int64(*offsets), left_format, right_format)
            self.assertEqual((out.shape, out.dtype), ((70, 40), torch.bfloat16))
            self.assert_near(out, rows_product(left[2], right[2], offsets))

    def test_types_and_modes(self):
        left, right = operand(randn(64, 64), "mxfp4"), operand(randn(2, 32, 64, seed=8), "mxfp4")
        expected = rows_product(left[2], right[2], [0, 30, 64])
        for dtype, mode, limit in [(torch.float32, "exact", 1e-6), (torch.float16, "fast", 2e-3),
                                   (torch.float32, "fast", 1e-3)]:
            out = mxrt.grouped_gemm(*left[:2], *right[:2], int64(0, 30, 64), out_dtype=dtype,
                                    mode=mode)
            self.assertEqual(out.dtype, dtype)
            self.assert_near(out, expected, limit)

    def test_columns(self):
        bounds = [0, 64, 64, 96]
        left, right = operand(randn(96, 24), "mxfp4", 0), operand(randn(96, 40, seed=8), "mxfp4", 0)
        out = mxrt.grouped_gemm(*left[:2], *right[:2], int64(*bounds), out_dtype=torch.float32,
                                cols=True)
        expected = torch.stack([left[2][:, a:b] @ right[2][:, a:b].T
                                for a, b in zip(bounds, bounds[1:])])
        self.assertEqual(out.shape, (3, 24, 40))
        self.assert_near(out, expected)
        self.assertEqual(out[1].abs().max().item(), 0)

    def test_padded_input_tight_output(self):
        left, right = operand(randn(64, 32), "mxfp4"), operand(randn(2, 16, 32, seed=8), "mxfp4")
        out = mxrt.grouped_gemm(*left[:2], *right[:2], int64(0, 32, 64), out_rows=30,
                                write_offsets=int64(0, 10, 30), out_dtype=torch.float32)
        rows = torch.cat([left[2][:10], left[2][32:52]])
        self.assert_near(out, rows_product(rows, right[2], [0, 10, 30]))

    def test_offsets_of_the_host(self):
        left, right = operand(randn(64, 64), "mxfp4"), operand(randn(2, 32, 64, seed=8), "mxfp4")
        out = mxrt.grouped_gemm(*left[:2], *right[:2], int64(0, 30, 64).cpu())
        self.assert_near(out, rows_product(left[2], right[2], [0, 30, 64]))
        for wrong in (int64(0, 40, 30), int64(0, 30, 65), int64(-1, 30, 64)):
            with self.assertRaisesRegex(ValueError, "offsets"):
                mxrt.grouped_gemm(*left[:2], *right[:2], wrong.cpu())

    def test_added_to_what_is_there(self):
        left, right = operand(randn(64, 64), "mxfp4"), operand(randn(2, 32, 64, seed=8), "mxfp4")
        expected = rows_product(left[2], right[2], [0, 30, 64])
        for dtype in (torch.float32, torch.bfloat16):
            out = randn(64, 32, seed=9).to(dtype)
            before = out.double()
            result = mxrt.grouped_gemm(*left[:2], *right[:2], int64(0, 30, 64), out=out,
                                       accumulate=True)
            self.assertIs(result, out)
            self.assert_near(out, before + expected)

    def test_status(self):
        left, right = operand(randn(64, 64), "mxfp4"), operand(randn(2, 32, 64, seed=8), "mxfp4")
        status = torch.full((1,), 99, dtype=torch.int32, device=DEVICE)
        for offsets, wrong in (((0, 30, 64), 0), ((0, 40, 30), 1), ((0, 30, 65), 2)):
            mxrt.grouped_gemm(*left[:2], *right[:2], int64(*offsets), status=status)
            self.assertEqual(status.item() & wrong, wrong)
            self.assertEqual(status.item() == 0, wrong == 0)

    def test_refused(self):
        left, right = operand(randn(64, 64), "mxfp4"), operand(randn(2, 32, 64, seed=8), "mxfp4")
        offsets = int64(0, 30, 64)
        gemm = mxrt.grouped_gemm
        for error, call in [
            (TypeError, lambda: gemm(left[2], left[1], *right[:2], offsets)),
            (TypeError, lambda: gemm(*left[:2], *right[:2], offsets.int())),
            (TypeError, lambda: gemm(*left[:2], *right[:2], offsets, out_dtype=torch.float64)),
            (ValueError, lambda: gemm(*left[:2], *right[:2], offsets, "mxfp3")),
            (ValueError, lambda: gemm(*left[:2], right[0], None, offsets)),
            (ValueError, lambda: gemm(*left[:2], right[0][0], right[1][0], offsets)),
            (ValueError, lambda: gemm(left[0], left[1][:, :1], *right[:2], offsets)),
            (ValueError, lambda: gemm(*left[:2], *right[:2], int64(0, 64))),
            (ValueError, lambda: gemm(*left[:2], *right[:2], offsets, accumulate=True)),
            (ValueError, lambda: gemm(*left[:2], *right[:2], offsets, out=randn(64, 31))),
            (TypeError, lambda: gemm(*left[:2], *right[:2], offsets, status=offsets[:1])),
            (ValueError, lambda: mxrt.grouped_linear(randn(8, 64), randn(2, 32, 32), offsets)),
        ]:
            with self.assertRaises(error):
                call()


    def test_added_in_a_compiled_function(self):
        torch._dynamo.reset()
        left, right = operand(randn(64, 64), "mxfp4"), operand(randn(2, 32, 64, seed=8), "mxfp4")

        def add(out):
            return mxrt.grouped_gemm(*left[:2], *right[:2], int64(0, 30, 64), out=out,
                                     accumulate=True) * 2

        one, other = randn(64, 32, seed=9), randn(64, 32, seed=9)
        result = torch.compile(add, fullgraph=True, backend=BACKEND)(one)
        self.assertTrue(torch.equal(result, add(other)))
        self.assertTrue(torch.equal(one, other))


class Experts(Device):
    """grouped_linear: the products of quantised operands, forward and for both gradients."""

    OFFSETS = [0, 50, 50, 130, 200]

    def inputs(self):
        return (randn(200, 64).requires_grad_(), randn(4, 96, 64, seed=8).requires_grad_(),
                int64(*self.OFFSETS))

    def test_forward_and_gradients(self):
        x, weight, offsets = self.inputs()
        grad = randn(200, 96, seed=9)
        format = "mxfp8e4m3"
        out = mxrt.grouped_linear(x, weight, offsets, format, mode="exact")
        out.backward(grad)

        def along(tensor, axis):
            return mxrt.ocp_qdq(tensor.detach(), format, axis).double()

        self.assert_near(out, rows_product(along(x, 1), along(weight, 2), self.OFFSETS), 1e-5)
        self.assert_near(x.grad, rows_product(along(grad, 1), along(weight, 1).transpose(1, 2),
                                              self.OFFSETS), 1e-5)
        for g in range(4):
            own = slice(self.OFFSETS[g], self.OFFSETS[g + 1])
            expected = along(grad[own], 0).T @ along(x[own], 0) if g != 1 else None
            if expected is None:
                self.assertEqual(weight.grad[g].abs().max().item(), 0)
            else:
                self.assert_near(weight.grad[g], expected, 1e-5)

    def test_compiled(self):
        torch._dynamo.reset()
        x, weight, offsets = self.inputs()
        run = torch.compile(mxrt.grouped_linear, fullgraph=True, backend=BACKEND)
        run(x, weight, offsets).square().sum().backward()
        compiled = x.grad, weight.grad
        x.grad = weight.grad = None
        mxrt.grouped_linear(x, weight, offsets).square().sum().backward()
        self.assertTrue(torch.equal(compiled[0], x.grad))
        self.assertTrue(torch.equal(compiled[1], weight.grad))

    def test_rows_that_no_group_owns(self):
        x, weight, _ = self.inputs()
        out = mxrt.grouped_linear(x, weight, int64(10, 50, 50, 130, 190), "mxfp8e4m3")
        self.assertEqual(out[:10].abs().max().item(), 0)
        self.assertEqual(out[190:].abs().max().item(), 0)
        out.backward(torch.ones_like(out))
        self.assertEqual(x.grad[:10].abs().max().item(), 0)
        self.assertTrue(torch.isfinite(weight.grad).all())


if __name__ == "__main__":
    unittest.main()
