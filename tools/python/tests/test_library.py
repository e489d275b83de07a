"""What needs neither torch nor numpy: finding libmxrt, presets, shapes, messages."""

import ctypes
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import cases
import mxrt
from mxrt import _formats as formats
from mxrt import _library as lib
from mxrt._runtime import runtime

PACKAGE = pathlib.Path(formats.__file__).parent


# Importing torch takes seconds, and these tests do without it.
ALONE = "import importlib.util as u; u.find_spec = lambda name: None\n"


def run_python(code, folder, **environment):
    """Runs code with the package of `folder`; returns what it printed, errors too."""
    full = {**os.environ, "PYTHONPATH": str(folder), **environment}
    full = {name: value for name, value in full.items() if value is not None}
    done = subprocess.run([*cases.PYTHON, "-c", ALONE + code], env=full, capture_output=True, text=True,
                          check=False)
    return done.stdout + done.stderr


class Finding(unittest.TestCase):
    """Where the library is looked for. Only paths are printed: nothing is loaded but by name."""

    CODE = "from mxrt import _library; print(_library.find())"
    LOAD = "from mxrt import _library; print(_library.load()[0])"

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        shutil.copytree(PACKAGE, self.folder / "mxrt")
        self.library = pathlib.Path(lib.find()).resolve()

    def test_environment_first(self):
        (self.folder / "mxrt" / lib.SONAME).symlink_to(self.library)
        out = run_python(self.LOAD, self.folder, MXRT_LIBRARY=str(self.library))
        self.assertEqual(out.strip(), str(self.library))

    def test_beside_the_package(self):
        beside = self.folder / "mxrt" / lib.SONAME
        beside.symlink_to(self.library)
        out = run_python(self.LOAD, self.folder, MXRT_LIBRARY=None, PKG_CONFIG="false")
        self.assertEqual(out.strip(), str(beside))

    def test_pkg_config(self):
        where = self.folder / "lib"
        where.mkdir()
        (where / lib.SONAME).symlink_to(self.library)
        tool = self.folder / "pkg-config"
        tool.write_text(f'#!/bin/sh\n[ "$1 $2" = "--variable=libdir libmxrt" ] && echo {where}\n')
        tool.chmod(0o755)
        out = run_python(self.LOAD, self.folder, MXRT_LIBRARY=None, PKG_CONFIG=str(tool))
        self.assertEqual(out.strip(), str(where / lib.SONAME))

    def test_loader_last(self):
        out = run_python(self.CODE, self.folder, MXRT_LIBRARY=None, PKG_CONFIG="false")
        self.assertEqual(out.strip(), lib.SONAME)

    def test_missing_names_what_to_do(self):
        out = run_python(self.LOAD, self.folder, MXRT_LIBRARY="/nonexistent/libmxrt.so.0")
        self.assertIn("OSError: libmxrt cannot be used: /nonexistent/libmxrt.so.0", out)
        self.assertIn("set MXRT_LIBRARY", out)

    def test_foreign_library_is_refused(self):
        out = run_python(self.LOAD, self.folder, MXRT_LIBRARY="libm.so.6")
        self.assertIn("mxrt_context_create", out)

    def test_no_torch_and_no_numpy(self):
        code = ("import sys; sys.modules['numpy'] = None\n"
                "import mxrt\nmxrt.convert_to_mx([1.0], 'mx9')")
        self.assertIn("TypeError: list needs torch or numpy", run_python(code, self.folder))


class Shapes(unittest.TestCase):
    """The package's arithmetic, which symbolic sizes need, against the library's."""

    SHAPES = [((5,), 0), ((3, 40), -1), ((3, 40), 0), ((2, 33, 70), 1), ((2, 33, 70), -3),
              ((0, 7), 1), ((64, 64), -2), ((2, 2, 65, 31), -1)]

    def test_packed(self):
        for shape, axis in self.SHAPES:
            for name, (number, block_bytes) in {**formats.PACKED, **formats.OCP}.items():
                dims = (ctypes.c_int64 * len(shape))(*shape)
                n, size = ctypes.c_int64(), ctypes.c_int64()
                runtime.call("mxrt_packed_shape", number, len(shape), dims, axis, n, size)
                ours = (formats.packed_shape(shape, axis, block_bytes) if name in formats.PACKED
                        else formats.ocp_shapes(shape, axis, block_bytes, 0)[0])
                self.assertEqual((n.value, size.value), ours, (name, shape, axis))

    def test_ocp(self):
        for shape, axis in self.SHAPES:
            for name, (number, block_bytes) in formats.OCP.items():
                for two_d in (0, 1):
                    dims = (ctypes.c_int64 * len(shape))(*shape)
                    data, scales = (ctypes.c_int64 * 2)(), (ctypes.c_int64 * 2)()
                    options = formats.ocp_struct(formats.ocp_options(two_d=two_d))
                    runtime.call("mxrt_ocp_shape", number, options, len(shape), dims, axis, data,
                                 scales)
                    self.assertEqual((tuple(data), tuple(scales)),
                                     formats.ocp_shapes(shape, axis, block_bytes, two_d),
                                     (name, shape, axis, two_d))

    def test_refused_alike(self):
        for shape, axis in [((), 0), ((3, 0), 1), ((3, 4), 2), ((3, 4), -3)]:
            dims = (ctypes.c_int64 * max(len(shape), 1))(*shape)
            n, size = ctypes.c_int64(), ctypes.c_int64()
            with self.assertRaises(ValueError):
                runtime.call("mxrt_packed_shape", 0, len(shape), dims, axis, n, size)
            with self.assertRaises(ValueError):
                formats.packed_shape(shape, axis, 18)


class Options(unittest.TestCase):
    def test_changes(self):
        options = dict(zip(formats.FIELDS, formats.ocp_options(
            "ocp", rounding="stochastic", seed=2**64 - 1, two_d=True)))
        self.assertEqual((options["rounding"], options["seed"], options["two_d"]),
                         (2, 2**64 - 1, 1))
        self.assertEqual(options["scale_rule"], formats.SCALE_RULES["floor"])
        self.assertEqual(formats.ocp_options()[formats.FIELDS.index("zero_byte")], 1)

    def test_refused(self):
        for error, arguments in [(ValueError, {"profile": "other"}), (ValueError, {"seed": -1}),
                                 (ValueError, {"zero_byte": 256}), (TypeError, {"nothing": 1}),
                                 (ValueError, {"rounding": "down"}),
                                 (TypeError, {"scale_rule": 3})]:
            with self.assertRaises(error, msg=arguments):
                formats.ocp_options(**arguments)


class Version(unittest.TestCase):
    def test_is_the_library_s(self):
        header = pathlib.Path(__file__).resolve().parents[2].parent / "include/mxgen/base.h"
        if not header.exists():
            self.skipTest("the sources are not here")
        self.assertIn(f'MX_VERSION_STRING "{mxrt.__version__}"', header.read_text())


class Messages(unittest.TestCase):
    def test_the_library_s_own(self):
        dims = (ctypes.c_int64 * 2)(3, 4)
        n, size = ctypes.c_int64(), ctypes.c_int64()
        with self.assertRaisesRegex(ValueError, r"axis 7 is outside -2\.\.1"):
            runtime.call("mxrt_packed_shape", 0, 2, dims, 7, n, size)

    def test_a_device_that_is_not_there(self):
        with self.assertRaises(lib.Error) as caught:
            runtime.device("cuda:9999")
        self.assertIn(caught.exception.status, ("not-found", "device", "unsupported", "invalid"))

    def test_packs_come_first(self):
        runtime.started()
        with self.assertRaisesRegex(RuntimeError, "before the first conversion"):
            runtime.add_pack(sys.executable)


if __name__ == "__main__":
    unittest.main()
