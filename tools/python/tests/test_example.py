"""docs/examples/pack_linear.py: what it makes of models, and that it runs."""

import contextlib
import io
import os
import pathlib
import re
import sys
import unittest

import torch
from torch import nn

import mxrt

EXAMPLE = pathlib.Path(os.environ.get("MX_TEST_EXAMPLE") or
                       pathlib.Path(__file__).resolve().parents[3] / "docs/examples")
sys.path.insert(0, str(EXAMPLE))
import pack_linear  # noqa: E402


class Packed(unittest.TestCase):
    def test_any_model(self):
        torch.manual_seed(0)
        model = nn.TransformerEncoderLayer(32, 4, 48, batch_first=True).eval()
        x = torch.randn(2, 5, 32)
        expected = model(x).detach()
        before, after = pack_linear.pack_linear_layers(model, "mx9", skip=("linear2",))
        self.assertEqual((before, after), (32 * 48 * 4, 32 * 48 // 16 * 18))
        self.assertIsInstance(model.linear1, pack_linear.PackedLinear)
        # Left alone: what was named, and the projection of attention, a subclass.
        self.assertIs(type(model.linear2), nn.Linear)
        self.assertIsNot(type(model.self_attn.out_proj), pack_linear.PackedLinear)
        # The layer has a fused form that reads weights, and one that calls its children.
        for out in (model(x), model.train(False)(x.requires_grad_())):
            self.assertLess((out - expected).abs().max().item(), 0.05)

    def test_types(self):
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            linear = nn.Linear(40, 24).to(dtype)
            packed = pack_linear.PackedLinear(linear, "mx9")
            x = torch.randn(3, 40).to(dtype)
            weight = mxrt.qdq(linear.weight.detach().float(), "mx9").to(dtype)
            expected = nn.functional.linear(x, weight, linear.bias)
            self.assertEqual(packed(x).dtype, dtype)
            self.assertTrue(torch.equal(packed(x), expected))

    def test_compiled(self):
        packed = pack_linear.PackedLinear(nn.Linear(40, 24), "mx6")
        x = torch.randn(3, 40)
        run = torch.compile(packed, fullgraph=True, backend="aot_eager")
        self.assertTrue(torch.allclose(run(x), packed(x)))

    def test_program(self):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            self.assertEqual(pack_linear.main(), 0)
        print(out.getvalue())
        loss, mx9, mx6 = (float(text) for text in re.findall(r"loss ([\d.]+)", out.getvalue()))
        self.assertLess(abs(mx9 - loss), 0.005)
        self.assertLess(abs(mx6 - loss), 0.05)
        self.assertNotEqual(mx6, loss)


if __name__ == "__main__":
    unittest.main()
