"""Block-scaled (MX) number formats from Python: libmxrt on torch tensors and numpy arrays.

    packed = mxrt.convert_to_mx(weight, "mx9")
    weight = mxrt.convert_from_mx(packed, "mx9", torch.bfloat16, weight.shape)

Tensors stay where they are: torch's on the CPU and on CUDA and ROCm GPUs, on its current stream;
numpy arrays on the CPU; any other object with __dlpack__ is taken by torch, or by numpy where there
is no torch. Results are of the library that took the input. Blocks are formed along `axis`, which is
swapped with the last dimension; packed bytes do not hold shape, axis or type.

Wrong arguments raise ValueError and TypeError, anything else that fails mxrt.Error. Kernels come
from $MXRT_PACK, else from the pack installed beside libmxrt, and from add_pack(); the CPU needs none.
"""

import importlib.util

from . import _formats
from ._library import Error
from ._runtime import runtime as _runtime

__version__ = "0.1.0"
__all__ = ["Error", "add_pack", "convert_from_mx", "convert_to_mx", "library_path",
           "ocp_dequantize", "ocp_qdq", "ocp_quantize", "qdq"]
# With torch: grouped_gemm and grouped_linear, too.

if importlib.util.find_spec("torch"):
    import torch as _torch_module

    from . import _torch
    from ._gemm import grouped_gemm, grouped_linear

    __all__ += ["grouped_gemm", "grouped_linear"]
    _Tensor = _torch_module.Tensor
else:
    _torch = None

    class _Tensor:
        """What no object is an instance of."""


def _numpy_side(x):
    """(functions, array) for what is no torch tensor."""
    if type(x).__module__ == "numpy" or _torch is None:
        try:
            import numpy

            from . import _numpy
        except ImportError:
            raise TypeError(f"{type(x).__name__} needs torch or numpy, neither is there") from None
        if isinstance(x, numpy.ndarray):
            return _numpy, x
        if hasattr(x, "__dlpack__"):
            return _numpy, numpy.from_dlpack(x)
    elif hasattr(x, "__dlpack__"):
        return _torch, _torch_module.from_dlpack(x)
    raise TypeError(f"a tensor is needed, got {type(x).__name__}: a torch.Tensor, a numpy.ndarray "
                    "or an object with __dlpack__")


def _side(x):
    return (_torch, x) if isinstance(x, _Tensor) else _numpy_side(x)


def add_pack(path):
    """Adds the kernels of a pack that `mxgen build` made; before the first conversion only."""
    _runtime.add_pack(path)


def library_path():
    """The libmxrt in use."""
    _runtime.started()
    return _runtime.path


def convert_to_mx(data_hp, target_dtype, axis=-1):
    """Packs float32 or bfloat16 to "mx9" or "mx6": uint8 [n_blocks, 18 or 12].

    Any strides; n_blocks is the number of rows, where `axis` lies last, times ceil(size / 16).
    """
    if isinstance(data_hp, _Tensor):
        return _torch.convert_to_mx(data_hp, target_dtype, axis)
    side, data_hp = _numpy_side(data_hp)
    return side.convert_to_mx(data_hp, target_dtype, axis)


def convert_from_mx(packed, target_dtype, out_dtype, out_shape, axis=-1):
    """The tensor that convert_to_mx packed, of float32 or bfloat16.

    `target_dtype`, `out_shape` and `axis` must be those of that call. The result is contiguous with
    `axis` as its last dimension, and a view of that with the axis in its place.
    """
    side, packed = _side(packed)
    return side.convert_from_mx(packed, target_dtype, out_dtype, out_shape, axis)


def qdq(x, format, axis=-1, profile="packed"):
    """Quantises and dequantises in one pass: what x becomes by "mx9", "mx6" or "mx4".

    float32, bfloat16 or float16. Its gradient is passed straight through. `profile` "demoted-255"
    is the fake-quantise form of mxgen/format.h.
    """
    side, x = _side(x)
    return side.qdq(x, format, axis, profile)


def ocp_quantize(x, format, axis=-1, profile="alto", **options):
    """(data, scales) of an OCP format: uint8 [n_blocks, 16, 24 or 32] and [rows, blocks a row].

    Formats: mxfp4, mxfp6e2m3, mxfp6e3m2, mxfp8e4m3, mxfp8e5m2, mxint8. `profile` (alto, ocp, primus,
    te-rocm, rceil, a8) presets the options of mxgen/ocp.h, which can be given by name: scale_rule,
    rounding, seed, zero_byte, min_byte, min_amax, plus_zero, nan_scale, overflow, two_d, hadamard.
    """
    if isinstance(x, _Tensor):
        return _torch.ocp_quantize(x, format, axis, _formats.ocp_options(profile, **options))
    side, x = _numpy_side(x)
    return side.ocp_quantize(x, format, axis, _formats.ocp_options(profile, **options))


def ocp_dequantize(data, scales, format, out_dtype, out_shape, axis=-1, two_d=False):
    """The tensor of data and scales. A rotation (hadamard) is not undone."""
    side, data = _side(data)
    scales = _side(scales)[1]
    return side.ocp_dequantize(data, scales, format, out_dtype, out_shape, axis,
                               _formats.back_options(two_d))


def ocp_qdq(x, format, axis=-1, profile="alto", **options):
    """ocp_dequantize(ocp_quantize(x)); the gradient is passed straight through."""
    side, x = _side(x)
    return side.ocp_qdq(x, format, axis, _formats.ocp_options(profile, **options))
