"""libmxrt by ctypes: where it is, its structures and functions (mxgen/rt.h), errors as exceptions."""

import ctypes
import os
import shutil
import subprocess
from ctypes import POINTER, c_char, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t
from ctypes import c_uint8, c_uint16, c_uint64, c_void_p

ENVIRONMENT = "MXRT_LIBRARY"
SONAME = "libmxrt.so.0"

STATUS_NAMES = ("ok", "invalid", "unsupported", "not-found", "corrupt", "io", "no-memory",
                "device", "internal")
OK, INVALID, UNSUPPORTED, NO_MEMORY = 0, 1, 2, 6


class Error(RuntimeError):
    """What libmxrt refused or could not do; `status` is one of STATUS_NAMES.

    Wrong arguments are ValueError and TypeError, no memory is MemoryError.
    """

    def __init__(self, status, message):
        super().__init__(message)
        self.status = STATUS_NAMES[status] if status < len(STATUS_NAMES) else "unknown"


class CError(ctypes.Structure):
    _fields_ = [("status", c_int), ("message", c_char * 1020)]


class DLDevice(ctypes.Structure):
    _fields_ = [("device_type", c_int), ("device_id", c_int)]


class DLDataType(ctypes.Structure):
    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class DLTensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("device", DLDevice), ("ndim", c_int), ("dtype", DLDataType),
                ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)),
                ("byte_offset", c_uint64)]


class OcpOptions(ctypes.Structure):
    _fields_ = [("scale_rule", c_int), ("rounding", c_int), ("seed", c_uint64),
                ("zero_byte", c_uint8), ("min_byte", c_uint8), ("min_amax", c_float),
                ("plus_zero", c_uint8), ("nan_scale", c_uint8), ("overflow", c_uint8),
                ("two_d", c_uint8), ("hadamard", c_uint8)]


class DeviceInfo(ctypes.Structure):
    _fields_ = [("uri", c_char * 64), ("name", c_char * 128), ("target", c_char * 64),
                ("dl_device", DLDevice), ("compute_units", c_int), ("chip", c_char * 168),
                ("driver", c_char * 32)]


class PlanRequest(ctypes.Structure):
    _fields_ = [("op", c_int), ("format", c_int), ("profile", c_int), ("axis", c_int),
                ("in_", POINTER(DLTensor)), ("out", POINTER(DLTensor)),
                ("scales", POINTER(DLTensor)), ("options", POINTER(OcpOptions)),
                ("columns", c_void_p), ("variant", c_char_p), ("policy", c_int),
                ("budget_us", c_double), ("stream", c_void_p)]


class GemmRequest(ctypes.Structure):
    _fields_ = [("pass_", c_int), ("left_element", c_int), ("right_element", c_int),
                ("mode", c_int), ("left", POINTER(DLTensor)), ("left_scales", POINTER(DLTensor)),
                ("right", POINTER(DLTensor)), ("right_scales", POINTER(DLTensor)),
                ("out", POINTER(DLTensor)), ("read_offsets", POINTER(DLTensor)),
                ("write_offsets", POINTER(DLTensor)), ("status", POINTER(DLTensor)),
                ("host_offsets", c_int), ("left_scales_transposed", c_int),
                ("right_scales_transposed", c_int), ("accumulate", c_int), ("num_cu", c_int),
                ("variant", c_char_p), ("policy", c_int), ("budget_us", c_double),
                ("stream", c_void_p)]


class GemmBuffers(ctypes.Structure):
    _fields_ = [("left", c_void_p), ("left_scales", c_void_p), ("right", c_void_p),
                ("right_scales", c_void_p), ("out", c_void_p), ("read_offsets", c_void_p),
                ("write_offsets", c_void_p), ("status", c_void_p), ("workspace", c_void_p),
                ("workspace_bytes", c_size_t)]


LOG_FN = ctypes.CFUNCTYPE(None, c_void_p, c_char_p)


class ContextOptions(ctypes.Structure):
    _fields_ = [("log", LOG_FN), ("log_user", c_void_p), ("tune_file", c_char_p)]


_TENSOR = POINTER(DLTensor)
_OPTIONS = POINTER(OcpOptions)
_DIMS = POINTER(c_int64)

# Arguments without the last one, the error.
_FUNCTIONS = {
    "mxrt_context_create": (POINTER(ContextOptions), POINTER(c_void_p)),
    "mxrt_context_add_pack_file": (c_void_p, c_char_p),
    "mxrt_device_open": (c_void_p, c_char_p, POINTER(c_void_p)),
    "mxrt_device_get_info": (c_void_p, POINTER(DeviceInfo)),
    "mxrt_packed_shape": (c_int, c_int, _DIMS, c_int, _DIMS, _DIMS),
    "mxrt_ocp_shape": (c_int, _OPTIONS, c_int, _DIMS, c_int, _DIMS, _DIMS),
    "mxrt_convert_to": (c_void_p, c_int, c_int, _TENSOR, _TENSOR, c_void_p),
    "mxrt_convert_from": (c_void_p, c_int, c_int, _TENSOR, _TENSOR, c_void_p),
    "mxrt_quantize_dequantize": (c_void_p, c_int, c_int, c_int, _TENSOR, _TENSOR, c_void_p),
    "mxrt_ocp_quantize": (c_void_p, c_int, _OPTIONS, c_int, _TENSOR, _TENSOR, _TENSOR, c_void_p),
    "mxrt_ocp_dequantize": (c_void_p, c_int, _OPTIONS, c_int, _TENSOR, _TENSOR, _TENSOR,
                            c_void_p),
    "mxrt_ocp_qdq": (c_void_p, c_int, _OPTIONS, c_int, _TENSOR, _TENSOR, c_void_p),
    "mxrt_plan_create": (c_void_p, POINTER(PlanRequest), POINTER(c_void_p)),
    "mxrt_plan_run": (c_void_p, c_void_p, c_void_p, c_void_p),
    "mxrt_gemm_plan_create": (c_void_p, POINTER(GemmRequest), POINTER(c_void_p)),
    "mxrt_gemm_run": (c_void_p, POINTER(GemmBuffers), c_void_p),
    "mxrt_plan_run_scaled": (c_void_p, c_void_p, c_void_p, c_void_p, c_void_p),
}


def _pkg_config_folder():
    program = os.environ.get("PKG_CONFIG") or shutil.which("pkg-config")
    if not program:
        return None
    done = subprocess.run([program, "--variable=libdir", "libmxrt"], capture_output=True, text=True,
                          check=False)
    return done.stdout.strip() or None


def _candidates():
    """(where from, path): the first that is there is taken."""
    here = os.path.dirname(os.path.abspath(__file__))
    for folder in (here, os.path.join(here, "lib"), os.path.dirname(here)):
        yield "beside the package", os.path.join(folder, SONAME)
    folder = _pkg_config_folder()
    if folder:
        yield "pkg-config", os.path.join(folder, SONAME)


def find():
    """The path of libmxrt: $MXRT_LIBRARY, beside this package, pkg-config's, the loader's."""
    named = os.environ.get(ENVIRONMENT)
    if named:
        return named
    for _, path in _candidates():
        if os.path.exists(path):
            return path
    return SONAME


def _declare(library):
    for name, arguments in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype = c_int32
        function.argtypes = (*arguments, POINTER(CError))
    for name in ("mxrt_plan_destroy", "mxrt_gemm_plan_destroy"):
        getattr(library, name).restype = None
        getattr(library, name).argtypes = (c_void_p,)
    library.mxrt_gemm_workspace_bytes.restype = c_size_t
    library.mxrt_gemm_workspace_bytes.argtypes = (c_void_p,)
    return library


def load():
    """(path, library, library whose calls keep the interpreter's lock)."""
    path = find()
    try:
        return path, _declare(ctypes.CDLL(path)), _declare(ctypes.PyDLL(path))
    except (OSError, AttributeError) as error:
        raise OSError(f"libmxrt cannot be used: {error}; set {ENVIRONMENT} to its path, put "
                      f"{SONAME} beside the package or tell pkg-config of libmxrt.pc") from error


def check(status, error):
    """Raises what a status other than OK means."""
    if status == OK:
        return
    message = error.message.decode("utf-8", "replace")
    if status == INVALID:
        raise ValueError(message)
    if status == NO_MEMORY:
        raise MemoryError(message)
    raise Error(status, message)


def tensor(data, device, dtype, shape, strides):
    """A DLTensor that keeps its arrays; `strides` in elements."""
    dims = c_int64 * len(shape)
    return DLTensor(data, device, len(shape), dtype, dims(*shape), dims(*strides), 0)
