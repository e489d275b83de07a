"""The functions on torch tensors, and the same as torch operators (torch.ops.mxrt).

Plain tensors go straight to libmxrt. What is more than a plain tensor (under torch.compile, vmap, a
dispatch mode, with a gradient to come) goes through the operators.
"""

import ctypes

import torch

from . import _formats as formats
from . import _library as lib
from ._runtime import runtime

_TYPES = {torch.float32: formats.DL_TYPES["float32"], torch.bfloat16: formats.DL_TYPES["bfloat16"],
          torch.float16: formats.DL_TYPES["float16"], torch.uint8: formats.DL_TYPES["uint8"],
          torch.int64: formats.DL_TYPES["int64"], torch.int32: formats.DL_TYPES["int32"]}
_CONVERTED = (torch.float32, torch.bfloat16)
_PLAIN = (torch.float32, torch.bfloat16, torch.float16)
_MAX_PLANS = 4096

_SCHEME = "hip" if torch.version.hip else "cuda"
_raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)
_empty_like = torch.empty_like


# ---- What is checked before libmxrt is asked ----

def check_tensor(x, name, dtypes):
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, got {type(x).__name__}")
    if x.layout != torch.strided:
        raise TypeError(f"{name} must be a strided tensor, its layout is {x.layout}")
    if x.dtype not in dtypes:
        raise TypeError(f"{name} must be one of {', '.join(map(str, dtypes))}, got {x.dtype}")


def check_out_dtype(dtype, dtypes):
    if dtype not in dtypes:
        raise TypeError(f"out_dtype must be one of {', '.join(map(str, dtypes))}, got {dtype}")


def _shape_of(out_shape):
    if isinstance(out_shape, tuple):
        return out_shape
    try:
        return tuple(out_shape)
    except TypeError:
        raise TypeError(f"out_shape must be a sequence of sizes, got {out_shape!r}") from None


def _prepare_to(x, target_dtype, axis):
    _, block_bytes = formats.choose(formats.CONVERTED, target_dtype, "target_dtype")
    check_tensor(x, "data_hp", _CONVERTED)
    return formats.packed_shape(x.shape, axis, block_bytes)


def _prepare_from(packed, target_dtype, out_dtype, out_shape, axis):
    """The shape in memory of the result."""
    _, block_bytes = formats.choose(formats.CONVERTED, target_dtype, "target_dtype")
    check_out_dtype(out_dtype, _CONVERTED)
    check_tensor(packed, "packed", (torch.uint8,))
    formats.check_packed(packed.shape, target_dtype, block_bytes, out_shape, axis)
    return formats.swapped(out_shape, axis)


def _prepare_qdq(x, format, axis, profile):
    formats.choose(formats.PACKED, format, "format")
    formats.choose(formats.PROFILES, profile, "profile")
    check_tensor(x, "x", _PLAIN)
    formats.axis_within(axis, x.ndim)


def _prepare_ocp(x, format, axis, two_d):
    _, block_bytes = formats.choose(formats.OCP, format, "format")
    check_tensor(x, "x", _PLAIN)
    return formats.ocp_shapes(x.shape, axis, block_bytes, two_d)


def _prepare_ocp_from(data, scales, format, out_dtype, out_shape, axis, two_d):
    _, block_bytes = formats.choose(formats.OCP, format, "format")
    check_out_dtype(out_dtype, _PLAIN)
    check_tensor(data, "data", (torch.uint8,))
    check_tensor(scales, "scales", (torch.uint8,))
    formats.check_ocp(data.shape, scales.shape, format, block_bytes, out_shape, axis, two_d)
    return formats.swapped(out_shape, axis)


# ---- Calls ----

def dl_tensor(x, device):
    return lib.tensor(x.data_ptr(), device, _TYPES[x.dtype], x.shape, x.stride())


def stream(device):
    if device.type != "cuda":
        return None
    if _raw_stream:
        return _raw_stream(device.index)
    return torch.cuda.current_stream(device).cuda_stream


def uri(device):
    if device.type == "cpu":
        return "host"
    if device.type == "cuda":
        return f"{_SCHEME}:{device.index}"
    raise ValueError(f"tensors on {device} have no kernels here; move them to the CPU or a GPU")


def _call(function, before, inputs, outputs):
    """function(device, *before, *inputs, *outputs, stream); all tensors on one device."""
    first = inputs[0].device
    for x in inputs[1:]:
        if x.device != first:
            raise ValueError(f"tensors are on {first} and on {x.device}; move them to one device")
    handle, device = runtime.device(uri(first))
    try:
        runtime.call(function, handle, *before, *(dl_tensor(x, device) for x in (*inputs, *outputs)),
                     stream(first))
    except ValueError:
        # Inputs whose elements overlap in memory (as_strided, expand of a view) need a copy.
        if all(x.is_contiguous() for x in inputs):
            raise
        inputs = [x.contiguous() for x in inputs]
        runtime.call(function, handle, *before, *(dl_tensor(x, device) for x in (*inputs, *outputs)),
                     stream(first))


def _to(x, target_dtype, axis):
    packed = torch.empty(_prepare_to(x, target_dtype, axis), dtype=torch.uint8, device=x.device)
    _call("mxrt_convert_to", (formats.CONVERTED[target_dtype][0], axis), [x], [packed])
    return packed


def _from(packed, target_dtype, out_dtype, out_shape, axis):
    shape = _prepare_from(packed, target_dtype, out_dtype, out_shape, axis)
    y = torch.empty(shape, dtype=out_dtype, device=packed.device).transpose(axis, -1)
    _call("mxrt_convert_from", (formats.CONVERTED[target_dtype][0], axis), [packed], [y])
    return y


def _qdq(x, format, axis, profile):
    _prepare_qdq(x, format, axis, profile)
    y = torch.empty_like(x, memory_format=torch.contiguous_format)
    _call("mxrt_quantize_dequantize",
          (formats.PACKED[format][0], formats.PROFILES[profile], axis), [x], [y])
    return y


def _ocp_to(x, format, axis, options):
    shapes = _prepare_ocp(x, format, axis, options[formats.TWO_D])
    data, scales = (torch.empty(shape, dtype=torch.uint8, device=x.device) for shape in shapes)
    _call("mxrt_ocp_quantize", (formats.OCP[format][0], formats.ocp_struct(options), axis), [x],
          [data, scales])
    return data, scales


def _ocp_from(data, scales, format, out_dtype, out_shape, axis, options):
    shape = _prepare_ocp_from(data, scales, format, out_dtype, out_shape, axis, options[formats.TWO_D])
    y = torch.empty(shape, dtype=out_dtype, device=data.device).transpose(axis, -1)
    _call("mxrt_ocp_dequantize", (formats.OCP[format][0], formats.ocp_struct(options), axis),
          [data, scales], [y])
    return y


def _ocp_qdq(x, format, axis, options):
    _prepare_ocp(x, format, axis, options[formats.TWO_D])
    y = torch.empty_like(x, memory_format=torch.contiguous_format)
    _call("mxrt_ocp_qdq", (formats.OCP[format][0], formats.ocp_struct(options), axis), [x], [y])
    return y


# ---- GPUs: a call that was made before is a look-up and a launch ----

def _without_memory(x):
    """Of the same geometry, for empty_like, which is the quickest way to make a tensor."""
    if x is None:
        return None
    like = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device)
    like.untyped_storage().resize_(0)
    return like


def _no_stream(_index):
    return None


def _current_stream(index):
    return torch.cuda.current_stream(index).cuda_stream


class _Plan:
    """A plan of libmxrt, and tensors that are like its results."""

    __slots__ = ("handle", "run", "like", "scales_like", "stream", "index", "destroy")

    def __init__(self, handle, run, y, scales):
        self.handle, self.run, self.destroy = handle, run, runtime.locked.mxrt_plan_destroy
        self.like, self.scales_like = _without_memory(y), _without_memory(scales)
        self.stream = (_raw_stream or _current_stream) if y.is_cuda else _no_stream
        self.index = y.device.index


def keep_plan(key, plan):
    """Nothing runs the plans that go: their calls keep the interpreter's lock."""
    if len(runtime.plans) >= _MAX_PLANS:
        plans, runtime.plans = runtime.plans, {}
        for old in plans.values():
            old.destroy(old.handle)
    runtime.plans[key] = plan


def _plan(key, op, format, profile, axis, x, y, scales=None, options=None):
    """Plans the call that has just been made on x and y; what cannot be planned stays slow."""
    handle, device = runtime.device(uri(x.device))
    request = lib.PlanRequest(op=op, format=format, profile=profile, axis=axis,
                              in_=ctypes.pointer(dl_tensor(x, device)),
                              out=ctypes.pointer(dl_tensor(y, device)))
    run = runtime.locked.mxrt_plan_run
    if scales is not None:
        request.scales = ctypes.pointer(dl_tensor(scales, device))
        run = runtime.locked.mxrt_plan_run_scaled
    if options is not None:
        request.options = ctypes.pointer(formats.ocp_struct(options))
    plan, error = ctypes.c_void_p(), lib.CError()
    if runtime.library.mxrt_plan_create(handle, request, plan, error) == lib.OK:
        keep_plan(key, _Plan(plan.value, run, y, scales if op == formats.OP_TO else None))


# What makes a key impossible (arguments that cannot be hashed, tensors without strides) is for the
# slow path to refuse.
_NO_KEY = (TypeError, RuntimeError)


def _to_gpu(x, target_dtype, axis):
    try:
        data = x.data_ptr()
        key = (0, target_dtype, axis, x.dtype, x.device, x.shape, x.stride(), data & 15)
        plan = runtime.plans.get(key)
    except _NO_KEY:
        return _to(x, target_dtype, axis)
    if plan is None:
        packed = _to(x, target_dtype, axis)
        _plan(key, formats.OP_TO, formats.CONVERTED[target_dtype][0], 0, axis, x, packed)
        return packed
    packed = _empty_like(plan.like)
    if plan.run(plan.handle, data, packed.data_ptr(), plan.stream(plan.index), None):
        return _to(x, target_dtype, axis)
    return packed


def _from_gpu(packed, target_dtype, out_dtype, out_shape, axis):
    try:
        data = packed.data_ptr()
        key = (1, target_dtype, axis, out_dtype, packed.device, packed.shape, packed.stride(),
               data & 15, out_shape)
        plan = runtime.plans.get(key)
    except _NO_KEY:
        return _from(packed, target_dtype, out_dtype, out_shape, axis)
    if plan is None:
        y = _from(packed, target_dtype, out_dtype, out_shape, axis)
        _plan(key, formats.OP_FROM, formats.CONVERTED[target_dtype][0], 0, axis, packed, y)
        return y
    y = _empty_like(plan.like)
    if plan.run(plan.handle, data, y.data_ptr(), plan.stream(plan.index), None):
        return _from(packed, target_dtype, out_dtype, out_shape, axis)
    return y


def _qdq_gpu(x, format, axis, profile):
    try:
        data = x.data_ptr()
        key = (2, format, axis, x.dtype, x.device, x.shape, x.stride(), data & 15, profile)
        plan = runtime.plans.get(key)
    except _NO_KEY:
        return _qdq(x, format, axis, profile)
    if plan is None:
        y = _qdq(x, format, axis, profile)
        _plan(key, formats.OP_QDQ, formats.PACKED[format][0], formats.PROFILES[profile], axis, x, y)
        return y
    y = _empty_like(plan.like)
    if plan.run(plan.handle, data, y.data_ptr(), plan.stream(plan.index), None):
        return _qdq(x, format, axis, profile)
    return y


def _ocp_to_gpu(x, format, axis, options):
    try:
        address = x.data_ptr()
        key = (3, format, axis, x.dtype, x.device, x.shape, x.stride(), address & 15, options)
        plan = runtime.plans.get(key)
    except _NO_KEY:
        return _ocp_to(x, format, axis, options)
    if plan is None:
        data, scales = _ocp_to(x, format, axis, options)
        _plan(key, formats.OP_TO, formats.OCP[format][0], 0, axis, x, data, scales, options)
        return data, scales
    data, scales = _empty_like(plan.like), _empty_like(plan.scales_like)
    if plan.run(plan.handle, address, data.data_ptr(), scales.data_ptr(), plan.stream(plan.index),
                None):
        return _ocp_to(x, format, axis, options)
    return data, scales


def _ocp_from_gpu(data, scales, format, out_dtype, out_shape, axis, options):
    try:
        address, scales_address = data.data_ptr(), scales.data_ptr()
        key = (4, format, axis, out_dtype, data.device, data.shape, data.stride(), address & 15,
               scales.device, scales.shape, scales.stride(), scales_address & 15, out_shape,
               options[formats.TWO_D])
        plan = runtime.plans.get(key)
    except _NO_KEY:
        return _ocp_from(data, scales, format, out_dtype, out_shape, axis, options)
    if plan is None:
        y = _ocp_from(data, scales, format, out_dtype, out_shape, axis, options)
        _plan(key, formats.OP_FROM, formats.OCP[format][0], 0, axis, data, y, scales, options)
        return y
    y = _empty_like(plan.like)
    if plan.run(plan.handle, address, y.data_ptr(), scales_address, plan.stream(plan.index), None):
        return _ocp_from(data, scales, format, out_dtype, out_shape, axis, options)
    return y


def _ocp_qdq_gpu(x, format, axis, options):
    try:
        address = x.data_ptr()
        key = (5, format, axis, x.dtype, x.device, x.shape, x.stride(), address & 15, options)
        plan = runtime.plans.get(key)
    except _NO_KEY:
        return _ocp_qdq(x, format, axis, options)
    if plan is None:
        y = _ocp_qdq(x, format, axis, options)
        _plan(key, formats.OP_QDQ, formats.OCP[format][0], 0, axis, x, y, options=options)
        return y
    y = _empty_like(plan.like)
    if plan.run(plan.handle, address, y.data_ptr(), plan.stream(plan.index), None):
        return _ocp_qdq(x, format, axis, options)
    return y


def _to_any(x, target_dtype, axis):
    return (_to_gpu if x.is_cuda else _to)(x, target_dtype, axis)


def _from_any(packed, target_dtype, out_dtype, out_shape, axis):
    run = _from_gpu if packed.is_cuda else _from
    return run(packed, target_dtype, out_dtype, tuple(out_shape), axis)


def _qdq_any(x, format, axis, profile):
    return (_qdq_gpu if x.is_cuda else _qdq)(x, format, axis, profile)


def _ocp_to_any(x, format, axis, options):
    return (_ocp_to_gpu if x.is_cuda else _ocp_to)(x, format, axis, options)


def _ocp_from_any(data, scales, format, out_dtype, out_shape, axis, options):
    run = _ocp_from_gpu if data.is_cuda else _ocp_from
    return run(data, scales, format, out_dtype, tuple(out_shape), axis, options)


def _ocp_qdq_any(x, format, axis, options):
    return (_ocp_qdq_gpu if x.is_cuda else _ocp_qdq)(x, format, axis, options)


# ---- Operators ----

_OCP_ARGS = ("int scale_rule, int rounding, int seed, int zero_byte, int min_byte, float min_amax, "
             "bool plus_zero, bool nan_scale, bool overflow, bool two_d, bool hadamard")


def _pack_options(options):
    """Options as operator arguments: the seed as a signed number, flags as bool."""
    values = list(options)
    values[formats.SEED] -= (values[formats.SEED] >> 63) << 64
    for i in range(formats.FIRST_FLAG, len(values)):
        values[i] = bool(values[i])
    return values


def _unpack_options(values):
    values = list(values)
    values[formats.SEED] &= 2**64 - 1
    return tuple(values)


def define(name, schema, run, fake, straight_through=False):
    full = "mxrt::" + name
    torch.library.define(full, schema)
    torch.library.impl(full, ("cpu", "cuda"), run)
    torch.library.register_fake(full, fake)
    if straight_through:
        n_others = schema.split("->")[0].count(",")
        torch.library.register_autograd(full, lambda ctx, grad: (grad, *[None] * n_others))


def _fake_to(data_hp, target_dtype, axis=-1):
    return data_hp.new_empty(_prepare_to(data_hp, target_dtype, axis), dtype=torch.uint8)


def _fake_from(packed, target_dtype, out_dtype, out_shape, axis=-1):
    shape = _prepare_from(packed, target_dtype, out_dtype, out_shape, axis)
    return packed.new_empty(shape, dtype=out_dtype).transpose(axis, -1)


def _fake_qdq(x, format, axis=-1, profile="packed"):
    _prepare_qdq(x, format, axis, profile)
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _fake_ocp_to(x, format, axis, *options):
    shapes = _prepare_ocp(x, format, axis, _unpack_options(options)[formats.TWO_D])
    return tuple(x.new_empty(shape, dtype=torch.uint8) for shape in shapes)


def _fake_ocp_from(data, scales, format, out_dtype, out_shape, axis, two_d):
    shape = _prepare_ocp_from(data, scales, format, out_dtype, out_shape, axis, two_d)
    return data.new_empty(shape, dtype=out_dtype).transpose(axis, -1)


def _fake_ocp_qdq(x, format, axis, *options):
    _prepare_ocp(x, format, axis, _unpack_options(options)[formats.TWO_D])
    return torch.empty_like(x, memory_format=torch.contiguous_format)


define("convert_to_mx", "(Tensor data_hp, str target_dtype, int axis=-1) -> Tensor",
        lambda x, target_dtype, axis=-1: _to_any(x, target_dtype, axis), _fake_to)
define("convert_from_mx",
        "(Tensor packed, str target_dtype, ScalarType out_dtype, SymInt[] out_shape, int axis=-1)"
        " -> Tensor",
        lambda packed, target_dtype, out_dtype, out_shape, axis=-1:
        _from_any(packed, target_dtype, out_dtype, out_shape, axis), _fake_from)
define("qdq", '(Tensor x, str format, int axis=-1, str profile="packed") -> Tensor',
        lambda x, format, axis=-1, profile="packed": _qdq_any(x, format, axis, profile), _fake_qdq,
        straight_through=True)
define("ocp_quantize", f"(Tensor x, str format, int axis, {_OCP_ARGS}) -> (Tensor, Tensor)",
        lambda x, format, axis, *options: _ocp_to_any(x, format, axis, _unpack_options(options)),
        _fake_ocp_to)
define("ocp_dequantize",
        "(Tensor data, Tensor scales, str format, ScalarType out_dtype, SymInt[] out_shape, "
        "int axis, bool two_d) -> Tensor",
        lambda data, scales, format, out_dtype, out_shape, axis, two_d:
        _ocp_from_any(data, scales, format, out_dtype, out_shape, axis,
                      formats.back_options(two_d)),
        _fake_ocp_from)
define("ocp_qdq", f"(Tensor x, str format, int axis, {_OCP_ARGS}) -> Tensor",
        lambda x, format, axis, *options: _ocp_qdq_any(x, format, axis, _unpack_options(options)),
        _fake_ocp_qdq, straight_through=True)

_ops = torch.ops.mxrt
_is_compiling = torch.compiler.is_compiling
_n_modes = getattr(torch._C, "_len_torch_dispatch_stack", None)
_functorch = getattr(getattr(torch._C, "_functorch", None), "peek_interpreter_stack", None)
_EXACT = (torch.Tensor, torch.nn.Parameter)
_CAN_TELL = _n_modes is not None and _functorch is not None


def _is_plain(x):
    """Whether x is a tensor with memory and nothing watches what is done with it."""
    return (not _is_compiling() and type(x) in _EXACT and _CAN_TELL and not _n_modes() and
            _functorch() is None and not x.is_neg() and (x.is_cuda or x.is_cpu))


# Below, operators check their arguments themselves; under torch.compile their fake forms do, whose
# message is kept.

def _needs_grad(x):
    return x.requires_grad and torch.is_grad_enabled()


def convert_to_mx(data_hp, target_dtype, axis=-1):
    if _is_plain(data_hp):
        return (_to_gpu if data_hp.is_cuda else _to)(data_hp, target_dtype, axis)
    return _ops.convert_to_mx(data_hp, target_dtype, axis)


def convert_from_mx(packed, target_dtype, out_dtype, out_shape, axis=-1):
    out_shape = _shape_of(out_shape)
    if _is_plain(packed):
        run = _from_gpu if packed.is_cuda else _from
        return run(packed, target_dtype, out_dtype, out_shape, axis)
    return _ops.convert_from_mx(packed, target_dtype, out_dtype, out_shape, axis)


def qdq(x, format, axis=-1, profile="packed"):
    if _is_plain(x) and not _needs_grad(x):
        return (_qdq_gpu if x.is_cuda else _qdq)(x, format, axis, profile)
    return _ops.qdq(x, format, axis, profile)


def ocp_quantize(x, format, axis, options):
    if _is_plain(x):
        return (_ocp_to_gpu if x.is_cuda else _ocp_to)(x, format, axis, options)
    return _ops.ocp_quantize(x, format, axis, *_pack_options(options))


def ocp_dequantize(data, scales, format, out_dtype, out_shape, axis, options):
    out_shape = _shape_of(out_shape)
    if _is_plain(data) and _is_plain(scales):
        run = _ocp_from_gpu if data.is_cuda else _ocp_from
        return run(data, scales, format, out_dtype, out_shape, axis, options)
    return _ops.ocp_dequantize(data, scales, format, out_dtype, out_shape, axis,
                               bool(options[formats.TWO_D]))


def ocp_qdq(x, format, axis, options):
    if _is_plain(x) and not _needs_grad(x):
        return (_ocp_qdq_gpu if x.is_cuda else _ocp_qdq)(x, format, axis, options)
    return _ops.ocp_qdq(x, format, axis, *_pack_options(options))
