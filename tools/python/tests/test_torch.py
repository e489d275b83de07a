"""The functions on torch tensors, eager and compiled. $MX_TEST_DEVICE: cpu (default) or cuda."""

import os
import threading
import unittest
import unittest.mock

import torch

import cases
import mxrt
from mxrt import _formats as formats
from mxrt import _torch as side

DEVICE = torch.device(os.environ.get("MX_TEST_DEVICE", "cpu"))
if DEVICE.type == "cuda":
    DEVICE = torch.device("cuda", torch.cuda.current_device())
BYTES = {"mx9": 18, "mx6": 12}
ON_GPU = DEVICE.type == "cuda"
# torch's own compiler needs one of C++ for CPUs.
BACKEND = os.environ.get("MX_TEST_BACKEND", "inductor" if ON_GPU else "aot_eager")


def from_file(name, dtype, shape):
    raw = torch.frombuffer(bytearray(cases.read(name)), dtype=getattr(torch, cases.DTYPES[dtype]))
    return raw.reshape(shape).to(DEVICE)


def same_bits(a, b):
    return torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))


def randn(*shape, dtype=torch.float32):
    generator = torch.Generator().manual_seed(7)
    return torch.randn(*shape, generator=generator).to(DEVICE, dtype)


def has_ocp():
    try:
        mxrt.ocp_quantize(randn(1, 32), "mxfp4")
    except mxrt.Error:
        return False
    return True


class Converted(unittest.TestCase):
    """convert_to_mx and convert_from_mx: ALTO's names, shapes, types, views and refusals."""

    def test_expected_files(self):
        for case in cases.packed_sets():
            name, shape = case["name"], (case["rows"], case["last"])
            x = from_file(name + ".in", case["dtype"], shape)
            for format, block_bytes in BYTES.items():
                packed = mxrt.convert_to_mx(data_hp=x, target_dtype=format, axis=-1)
                self.assertEqual((packed.dtype, packed.device), (torch.uint8, x.device))
                self.assertEqual(packed.shape, (case["rows"] * -(-case["last"] // 16), block_bytes))
                self.assertTrue(packed.is_contiguous())
                self.assertEqual(bytes(packed.cpu().numpy()), cases.read(f"{name}.{format}"), name)
                y = mxrt.convert_from_mx(packed=packed, target_dtype=format, out_dtype=x.dtype,
                                         out_shape=x.shape, axis=-1)
                expected = from_file(f"{name}.{format}.out", case["dtype"], shape)
                self.assertTrue(same_bits(y, expected), name)

    def test_axes_and_views(self):
        x = randn(5, 33, 40)
        for source in (x, x.transpose(0, 1), x[1:, ::3, 5:], x.expand(5, 33, 40),
                       x[:1].expand(4, 33, 40)):
            for axis in (0, 1, 2, -2):
                for dtype in (torch.float32, torch.bfloat16):
                    view = source.to(dtype) if dtype != x.dtype else source
                    whole = view.transpose(axis, -1).contiguous()
                    packed = mxrt.convert_to_mx(view, "mx9", axis)
                    self.assertTrue(torch.equal(packed, mxrt.convert_to_mx(whole, "mx9")))
                    y = mxrt.convert_from_mx(packed, "mx9", dtype, view.shape, axis)
                    self.assertEqual((y.shape, y.dtype), (view.shape, dtype))
                    self.assertTrue(y.transpose(axis, -1).is_contiguous())
                    self.assertTrue(torch.equal(y, mxrt.qdq(view, "mx9", axis)))

    def test_overlapping_memory_is_read_as_it_is(self):
        windows = randn(64).as_strided((17, 48), (1, 1))
        self.assertTrue(torch.equal(mxrt.convert_to_mx(windows, "mx9"),
                                    mxrt.convert_to_mx(windows.contiguous(), "mx9")))

    def test_negated_view(self):
        x = torch._neg_view(randn(4, 32))
        self.assertTrue(torch.equal(mxrt.convert_to_mx(x, "mx9"),
                                    mxrt.convert_to_mx(x.clone(), "mx9")))

    def test_packed_views(self):
        x = randn(6, 64)
        packed = mxrt.convert_to_mx(x, "mx9")
        room = torch.zeros(packed.shape[0], 40, dtype=torch.uint8, device=DEVICE)
        room[:, 1:37:2] = packed
        y = mxrt.convert_from_mx(room[:, 1:37:2], "mx9", torch.float32, x.shape)
        self.assertTrue(torch.equal(y, mxrt.qdq(x, "mx9")))

    def test_out_types(self):
        x = randn(6, 64)
        packed = mxrt.convert_to_mx(x, "mx6")
        y = mxrt.convert_from_mx(packed, "mx6", torch.bfloat16, torch.Size([6, 64]))
        self.assertTrue(torch.equal(y, mxrt.qdq(x, "mx6").bfloat16()))

    def test_no_rows(self):
        packed = mxrt.convert_to_mx(torch.empty(0, 40, device=DEVICE), "mx9")
        self.assertEqual(packed.shape, (0, 18))
        y = mxrt.convert_from_mx(packed, "mx9", torch.float32, (0, 40))
        self.assertEqual(y.shape, (0, 40))

    def test_again_on_other_memory(self):
        """The same geometry twice: what was planned for the first call serves the second."""
        first, second = randn(8, 64), randn(8, 64) * 3
        for x in (first, second, first):
            y = mxrt.convert_from_mx(mxrt.convert_to_mx(x, "mx9"), "mx9", x.dtype, x.shape)
            self.assertTrue(torch.equal(y, mxrt.qdq(x, "mx9")))
            self.assertLess((y - x).abs().max().item(), 0.1)

    def test_refused(self):
        x = randn(4, 32)
        packed = mxrt.convert_to_mx(x, "mx9")
        to, back = mxrt.convert_to_mx, mxrt.convert_from_mx
        f32 = torch.float32
        for error, words, call in [
            (TypeError, "float16", lambda: to(x.half(), "mx9")),
            (TypeError, "float64", lambda: to(x.double(), "mx9")),
            (TypeError, "list", lambda: to([1.0], "mx9")),
            (TypeError, "int", lambda: to(x, 9)),
            (TypeError, "sparse", lambda: to(x.to_sparse(), "mx9")),
            (TypeError, "axis", lambda: to(x, "mx9", 1.0)),
            (ValueError, "'mx9', 'mx6', got 'mx4'", lambda: to(x, "mx4")),
            (ValueError, "mxfp4", lambda: to(x, "mxfp4")),
            (ValueError, r"axis 2 is outside -2\.\.1", lambda: to(x, "mx9", 2)),
            (ValueError, "no dimensions", lambda: to(x[0, 0], "mx9")),
            (ValueError, "size 0", lambda: to(x[:, :0], "mx9")),
            (TypeError, "float16", lambda: back(packed, "mx9", torch.float16, x.shape)),
            (TypeError, "packed must", lambda: back(x, "mx9", f32, x.shape)),
            (TypeError, "out_shape", lambda: back(packed, "mx9", f32, 128)),
            (ValueError, r"\[n_blocks, 12\]", lambda: back(packed, "mx6", f32, x.shape)),
            (ValueError, r"\[n_blocks, 18\]", lambda: back(packed[0], "mx9", f32, x.shape)),
            (ValueError, "needs 10", lambda: back(packed, "mx9", f32, (5, 32))),
            (ValueError, "no dimensions", lambda: back(packed, "mx9", f32, ())),
            (ValueError, "axis -3", lambda: back(packed, "mx9", f32, x.shape, -3)),
        ]:
            with self.assertRaisesRegex(error, words):
                call()
        self.assertFalse(to(x.requires_grad_(), "mx9").requires_grad)


class Ocp(unittest.TestCase):
    def setUp(self):
        if not has_ocp():
            self.skipTest("no kernels of the OCP formats on this device")

    def test_expected_files(self):
        index = cases.ocp_sets()
        for case in index["sets"]:
            name, shape = case["name"], (case["rows"], case["last"])
            x = from_file(name + ".in", case["dtype"], shape)
            for element, profile in index["pairs"]:
                format = cases.OCP_FORMATS[element]
                data, scales = mxrt.ocp_quantize(x, format, profile=profile)
                stem = f"{name}.{element}.{profile}"
                self.assertEqual(bytes(data.cpu().numpy()), cases.read(stem + ".data"), stem)
                self.assertEqual(bytes(scales.cpu().numpy()), cases.read(stem + ".scales"), stem)

    def test_back_and_in_one_pass(self):
        x = randn(2, 70, 45)
        for format in cases.OCP_FORMATS.values():
            for axis, options in [(-1, {}), (1, {"two_d": True}),
                                  (0, {"rounding": "stochastic", "seed": 2**63 + 5})]:
                data, scales = mxrt.ocp_quantize(x, format, axis, **options)
                y = mxrt.ocp_dequantize(data, scales, format, torch.float32, x.shape, axis,
                                        two_d=options.get("two_d", False))
                self.assertTrue(torch.equal(y, mxrt.ocp_qdq(x, format, axis, **options)), format)
                self.assertTrue(y.transpose(axis, -1).is_contiguous())

    def test_seeds_differ(self):
        x = randn(4, 64)
        a, b = (mxrt.ocp_qdq(x, "mxfp4", rounding="stochastic", seed=seed) for seed in (1, 2))
        self.assertFalse(torch.equal(a, b))

    def test_refused(self):
        x = randn(4, 64)
        data, scales = mxrt.ocp_quantize(x, "mxfp4")
        back = mxrt.ocp_dequantize
        for error, words, call in [
            (ValueError, "mx9", lambda: mxrt.ocp_quantize(x, "mx9")),
            (TypeError, "float64", lambda: mxrt.ocp_quantize(x.double(), "mxfp4")),
            (ValueError, "scales of mxfp4", lambda: back(data, scales.T, "mxfp4", x.dtype, x.shape)),
            (ValueError, "data of mxfp8", lambda: back(data, scales, "mxfp8e4m3", x.dtype, x.shape)),
        ]:
            with self.assertRaisesRegex(error, words):
                call()


def both_ways(x):
    packed = mxrt.convert_to_mx(x, "mx9", axis=0)
    return mxrt.convert_from_mx(packed, "mx9", torch.float32, x.shape, axis=0)


def both_ways_ocp(x):
    data, scales = mxrt.ocp_quantize(x, "mxfp8e4m3", rounding="stochastic", seed=2**63 + 1)
    return mxrt.ocp_dequantize(data, scales, "mxfp8e4m3", torch.float32, x.shape)


class Operators(unittest.TestCase):
    """torch.ops.mxrt, torch.compile, gradients."""

    def compiled(self, function, x, **options):
        torch._dynamo.reset()
        run = torch.compile(function, fullgraph=True, backend=BACKEND, **options)
        self.assertTrue(torch.equal(run(x), function(x)))
        return run

    def test_no_graph_breaks(self):
        self.compiled(both_ways, randn(40, 33))
        self.compiled(lambda x: mxrt.qdq(x, "mx4") * 2, randn(40, 33))

    def test_no_graph_breaks_ocp(self):
        if not has_ocp():
            self.skipTest("no kernels of the OCP formats on this device")
        self.compiled(both_ways_ocp, randn(40, 33))
        self.compiled(lambda x: mxrt.ocp_qdq(x, "mxint8") + 1, randn(40, 33))

    def test_any_size_is_compiled_once(self):
        run = self.compiled(both_ways, randn(40, 33), dynamic=True)
        with torch._dynamo.config.patch(error_on_recompile=True):
            for shape in ((41, 65), (7, 90)):
                x = randn(*shape)
                self.assertTrue(torch.equal(run(x), both_ways(x)))

    def test_operators_are_well_formed(self):
        x = randn(5, 40)
        packed = mxrt.convert_to_mx(x, "mx6", 0)
        tests = ("test_schema", "test_autograd_registration", "test_faketensor",
                 "test_aot_dispatch_dynamic")
        for op, arguments in [
            (torch.ops.mxrt.convert_to_mx, (x, "mx6", 0)),
            (torch.ops.mxrt.convert_from_mx, (packed, "mx6", torch.bfloat16, [5, 40], 0)),
            (torch.ops.mxrt.qdq, (x.clone().requires_grad_(), "mx9", 0)),
        ]:
            torch.library.opcheck(op, arguments, test_utils=tests)

    def test_gradient_passes_straight_through(self):
        functions = [lambda x: mxrt.qdq(x, "mx6")]
        if has_ocp():
            functions.append(lambda x: mxrt.ocp_qdq(x, "mxfp4"))
        for function in functions:
            x, weight = randn(4, 32).requires_grad_(), randn(4, 32)
            (function(x) * weight).sum().backward()
            self.assertTrue(torch.equal(x.grad, weight))
            with torch.no_grad():
                self.assertTrue(torch.equal(function(x), function(x.detach())))

    def test_fake_tensors(self):
        with torch._subclasses.fake_tensor.FakeTensorMode():
            x = torch.empty(6, 50, dtype=torch.bfloat16, device=DEVICE)
            packed = mxrt.convert_to_mx(x, "mx9", 0)
            y = mxrt.convert_from_mx(packed, "mx9", torch.float32, x.shape, 0)
            self.assertEqual((packed.shape, packed.dtype), ((50, 18), torch.uint8))
            self.assertEqual((y.shape, y.stride(), y.device), ((6, 50), (1, 6), DEVICE))
            data, scales = mxrt.ocp_quantize(x, "mxfp6e2m3")
            self.assertEqual((data.shape, scales.shape), ((12, 24), (6, 2)))

    def test_meta_tensors(self):
        packed = mxrt.convert_to_mx(torch.empty(3, 32, device="meta"), "mx6")
        self.assertEqual((packed.shape, packed.device.type), ((6, 12), "meta"))

    def test_refused_while_compiling(self):
        torch._dynamo.reset()
        run = torch.compile(lambda x: mxrt.convert_to_mx(x, "mx9"), fullgraph=True,
                            backend="aot_eager")
        with self.assertRaisesRegex(Exception, "float64"):
            run(randn(4, 32).double())


class Planned(unittest.TestCase):
    """Calls of a geometry that was seen before, which take another way on GPUs: here everywhere."""

    def twice(self, again, once, *tensors):
        for x in tensors:
            for _ in range(2):
                results, expected = again(x), once(x)
                if isinstance(results, torch.Tensor):
                    results, expected = (results,), (expected,)
                for a, b in zip(results, expected):
                    self.assertTrue(same_bits(a, b))
                    self.assertEqual((a.stride(), a.dtype), (b.stride(), b.dtype))

    def test_packed_formats(self):
        x = randn(33, 50)
        room = randn(34, 51)
        for axis in (0, 1):
            self.twice(lambda x, axis=axis: side._to_gpu(x, "mx9", axis),
                       lambda x, axis=axis: side._to(x, "mx9", axis), x, x * 3, room[1:, 1:], x)
            packed = side._to(x, "mx9", axis)
            arguments = ("mx9", torch.bfloat16, (33, 50), axis)
            self.twice(lambda p, a=arguments: side._from_gpu(p, *a),
                       lambda p, a=arguments: side._from(p, *a), packed, packed.flip(0))
            self.twice(lambda x, axis=axis: side._qdq_gpu(x, "mx6", axis, "packed"),
                       lambda x, axis=axis: side._qdq(x, "mx6", axis, "packed"), x, room[1:, 1:])

    def test_ocp_formats(self):
        if not has_ocp():
            self.skipTest("no kernels of the OCP formats on this device")
        x = randn(33, 50)
        for options in (formats.ocp_options(), formats.ocp_options("ocp", two_d=True)):
            self.twice(lambda x, o=options: side._ocp_to_gpu(x, "mxfp4", 0, o),
                       lambda x, o=options: side._ocp_to(x, "mxfp4", 0, o), x, x * 5)
            self.twice(lambda x, o=options: side._ocp_qdq_gpu(x, "mxint8", 1, o),
                       lambda x, o=options: side._ocp_qdq(x, "mxint8", 1, o), x, x * 5)
            pair = side._ocp_to(x, "mxfp4", 0, options)
            arguments = ("mxfp4", torch.float32, (33, 50), 0, options)
            self.twice(lambda p, a=arguments: side._ocp_from_gpu(*p, *a),
                       lambda p, a=arguments: side._ocp_from(*p, *a), pair)

    def test_plans_do_not_pile_up(self):
        side.runtime.plans.clear()
        with unittest.mock.patch.object(side, "_MAX_PLANS", 4):
            for n in range(1, 12):
                x = randn(n, 32)
                self.assertTrue(torch.equal(side._to_gpu(x, "mx9", 1), side._to(x, "mx9", 1)))
                self.assertLessEqual(len(side.runtime.plans), 4)


class Surroundings(unittest.TestCase):
    def test_threads(self):
        inputs = [randn(64, 16 * n) for n in range(1, 9)]
        results = [None] * len(inputs)

        def work(i):
            for _ in range(20):
                results[i] = mxrt.convert_to_mx(inputs[i], "mx9")

        threads = [threading.Thread(target=work, args=(i,)) for i in range(len(inputs))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for x, packed in zip(inputs, results):
            self.assertTrue(torch.equal(packed, mxrt.convert_to_mx(x, "mx9")))

    @unittest.skipIf(ON_GPU, "a GPU's context does not survive a fork")
    def test_after_a_fork(self):
        x = randn(512, 512)
        expected = mxrt.convert_to_mx(x, "mx9")
        child = os.fork()
        if child == 0:
            os._exit(0 if torch.equal(mxrt.convert_to_mx(x, "mx9"), expected) else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    @unittest.skipUnless(ON_GPU, "streams are a GPU's")
    def test_current_stream(self):
        """Work waits for what the current stream has to do first."""
        x = randn(4096, 4096)
        mxrt.convert_to_mx(x, "mx9")
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            torch.cuda._sleep(50_000_000)
            x.mul_(4)
            packed = mxrt.convert_to_mx(x, "mx9")
            self.assertFalse(side.query())
        side.synchronize()
        self.assertTrue(torch.equal(packed, mxrt.convert_to_mx(x, "mx9")))

    @unittest.skipUnless(ON_GPU, "graphs are a GPU's")
    def test_captured_in_a_graph(self):
        x = randn(256, 256)
        mxrt.convert_to_mx(x, "mx9")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            packed = mxrt.convert_to_mx(x, "mx9")
        x.mul_(-2)
        graph.replay()
        self.assertTrue(torch.equal(packed, mxrt.convert_to_mx(x, "mx9")))


if __name__ == "__main__":
    unittest.main()
