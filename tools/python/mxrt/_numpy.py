"""The functions on numpy arrays: the host only. bfloat16 is that of ml_dtypes."""

import numpy

from . import _formats as formats
from . import _library as lib
from ._runtime import runtime


def _dtype_name(dtype, allowed, what):
    name = numpy.dtype(dtype).name
    if name not in allowed:
        raise TypeError(f"{what} must be one of {', '.join(allowed)}, got {name}")
    return name


def _tensor(array, device):
    size = array.itemsize
    if any(stride % size for stride in array.strides):
        raise ValueError(f"strides {array.strides} are no multiples of the {size} bytes of an "
                         "element; copy the array")
    strides = [stride // size for stride in array.strides]
    return lib.tensor(array.ctypes.data, device, formats.DL_TYPES[array.dtype.name], array.shape,
                      strides)


def _run(function, before, *arrays):
    handle, device = runtime.device("host")
    runtime.call(function, handle, *before, *(_tensor(array, device) for array in arrays), None)


def convert_to_mx(data_hp, target_dtype, axis=-1):
    number, block_bytes = formats.choose(formats.CONVERTED, target_dtype, "target_dtype")
    _dtype_name(data_hp.dtype, ("float32", "bfloat16"), target_dtype + " input")
    packed = numpy.empty(formats.packed_shape(data_hp.shape, axis, block_bytes), numpy.uint8)
    _run("mxrt_convert_to", (number, axis), data_hp, packed)
    return packed


def convert_from_mx(packed, target_dtype, out_dtype, out_shape, axis=-1):
    number, block_bytes = formats.choose(formats.CONVERTED, target_dtype, "target_dtype")
    _dtype_name(out_dtype, ("float32", "bfloat16"), "out_dtype")
    _dtype_name(packed.dtype, ("uint8",), "packed")
    out_shape = tuple(out_shape)
    formats.check_packed(packed.shape, target_dtype, block_bytes, out_shape, axis)
    y = numpy.empty(formats.swapped(out_shape, axis), out_dtype).swapaxes(axis, -1)
    _run("mxrt_convert_from", (number, axis), packed, y)
    return y


def qdq(x, format, axis=-1, profile="packed"):
    number, _ = formats.choose(formats.PACKED, format, "format")
    profile = formats.choose(formats.PROFILES, profile, "profile")
    _dtype_name(x.dtype, ("float32", "bfloat16", "float16"), "x")
    formats.axis_within(axis, x.ndim)
    y = numpy.empty_like(x, order="C")
    _run("mxrt_quantize_dequantize", (number, profile, axis), x, y)
    return y


def ocp_quantize(x, format, axis, options):
    number, block_bytes = formats.choose(formats.OCP, format, "format")
    _dtype_name(x.dtype, ("float32", "bfloat16", "float16"), "x")
    data_shape, scales_shape = formats.ocp_shapes(x.shape, axis, block_bytes, options[formats.TWO_D])
    data, scales = numpy.empty(data_shape, numpy.uint8), numpy.empty(scales_shape, numpy.uint8)
    _run("mxrt_ocp_quantize", (number, formats.ocp_struct(options), axis), x, data, scales)
    return data, scales


def ocp_dequantize(data, scales, format, out_dtype, out_shape, axis, options):
    number, block_bytes = formats.choose(formats.OCP, format, "format")
    _dtype_name(out_dtype, ("float32", "bfloat16", "float16"), "out_dtype")
    for name, array in (("data", data), ("scales", scales)):
        _dtype_name(array.dtype, ("uint8",), name)
    out_shape = tuple(out_shape)
    formats.check_ocp(data.shape, scales.shape, format, block_bytes, out_shape, axis,
                      options[formats.TWO_D])
    y = numpy.empty(formats.swapped(out_shape, axis), out_dtype).swapaxes(axis, -1)
    _run("mxrt_ocp_dequantize", (number, formats.ocp_struct(options), axis), data, scales, y)
    return y


def ocp_qdq(x, format, axis, options):
    number, _ = formats.choose(formats.OCP, format, "format")
    _dtype_name(x.dtype, ("float32", "bfloat16", "float16"), "x")
    formats.axis_within(axis, x.ndim)
    y = numpy.empty_like(x, order="C")
    _run("mxrt_ocp_qdq", (number, formats.ocp_struct(options), axis), x, y)
    return y
