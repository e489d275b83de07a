"""The functions on numpy arrays, and on what else has __dlpack__."""

import unittest

import numpy

import cases
import mxrt


class Wrapped:
    """An array that only DLPack can read."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **arguments):
        return self.array.__dlpack__(**arguments)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Arrays(unittest.TestCase):
    def setUp(self):
        self.x = numpy.random.default_rng(1).standard_normal((5, 33, 40)).astype("float32")

    def test_expected_files(self):
        for case in cases.packed_sets():
            if case["dtype"] != "f32":
                continue
            x = numpy.frombuffer(cases.read(case["name"] + ".in"), "<f4")
            x = x.reshape(case["rows"], case["last"])
            for format in ("mx9", "mx6"):
                packed = mxrt.convert_to_mx(x, format)
                self.assertEqual(packed.tobytes(), cases.read(f"{case['name']}.{format}"))
                y = mxrt.convert_from_mx(packed, format, "float32", x.shape)
                self.assertEqual(y.tobytes(), cases.read(f"{case['name']}.{format}.out"))

    def test_axes_and_strides(self):
        for axis in (0, 1, 2, -2):
            whole = numpy.ascontiguousarray(numpy.swapaxes(self.x, axis, -1))
            packed = mxrt.convert_to_mx(self.x, "mx9", axis)
            numpy.testing.assert_array_equal(packed, mxrt.convert_to_mx(whole, "mx9"))
            y = mxrt.convert_from_mx(packed, "mx9", numpy.float32, self.x.shape, axis)
            self.assertEqual(y.shape, self.x.shape)
            self.assertTrue(numpy.swapaxes(y, axis, -1).flags.c_contiguous)
            numpy.testing.assert_array_equal(y, mxrt.qdq(self.x, "mx9", axis))
        every_other = self.x[:, ::2, 3:]
        numpy.testing.assert_array_equal(mxrt.convert_to_mx(every_other, "mx6"),
                                         mxrt.convert_to_mx(every_other.copy(), "mx6"))

    def test_ocp(self):
        for format in cases.OCP_FORMATS.values():
            data, scales = mxrt.ocp_quantize(self.x, format, 1, two_d=True)
            y = mxrt.ocp_dequantize(data, scales, format, "float32", self.x.shape, 1, two_d=True)
            numpy.testing.assert_array_equal(y, mxrt.ocp_qdq(self.x, format, 1, two_d=True))
            self.assertLess(numpy.abs(y - self.x).max(), 0.6)

    def test_dlpack(self):
        packed = mxrt.convert_to_mx(Wrapped(self.x), "mx9")
        self.assertEqual(numpy.asarray(packed).tobytes(),
                         mxrt.convert_to_mx(self.x, "mx9").tobytes())

    def test_refused(self):
        x, packed = self.x, mxrt.convert_to_mx(self.x, "mx9")
        for error, call in [
            (TypeError, lambda: mxrt.convert_to_mx(x.astype("float64"), "mx9")),
            (TypeError, lambda: mxrt.convert_to_mx([1.0], "mx9")),
            (TypeError, lambda: mxrt.convert_from_mx(packed, "mx9", "float64", x.shape)),
            (TypeError, lambda: mxrt.convert_from_mx(x, "mx9", "float32", x.shape)),
            (ValueError, lambda: mxrt.convert_to_mx(x, "mx5")),
            (ValueError, lambda: mxrt.convert_to_mx(x[::-1], "mx9")),
            (ValueError, lambda: mxrt.convert_to_mx(x, "mx9", 3)),
            (ValueError, lambda: mxrt.convert_from_mx(packed, "mx6", "float32", x.shape)),
            (ValueError, lambda: mxrt.convert_from_mx(packed[1:], "mx9", "float32", x.shape)),
        ]:
            with self.assertRaises(error):
                call()


if __name__ == "__main__":
    unittest.main()
