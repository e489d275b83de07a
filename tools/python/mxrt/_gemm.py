"""Grouped GEMM on torch tensors (mxgen/gemm.h), and a linear layer of experts made of it."""

import ctypes

import torch

from . import _formats as formats
from . import _library as lib
from . import _torch as side
from ._runtime import runtime

_OUT_TYPES = (torch.bfloat16, torch.float32, torch.float16)
_ROWS, _COLS = 0, 1
_HOST = lib.DLDevice(1, 0)
_PAD = 128  # what kernels like best along a contraction of groups


# ---- One product ----

def _check_operand(data, scales, format, name):
    _, block_bytes = formats.choose(formats.GEMM_ELEMENTS, format, f"{name}_format")
    side.check_tensor(data, name, (torch.uint8,) if block_bytes else (torch.bfloat16,))
    if block_bytes and scales is None:
        raise ValueError(f"{name} is {format} and needs {name}_scales")
    if not block_bytes and scales is not None:
        raise ValueError(f"{name} is {format} and has no scales; {name}_scales must be None")
    if scales is not None:
        side.check_tensor(scales, f"{name}_scales", (torch.uint8,))


def _out_shape(left, right, offsets, cols, out_rows):
    wanted = (2, 2) if cols else (2, 3)
    if (left.ndim, right.ndim) != wanted or offsets.ndim != 1:
        raise ValueError(f"left, right and offsets have {left.ndim}, {right.ndim} and {offsets.ndim} "
                         f"dimensions; they must have {wanted[0]}, {wanted[1]} and 1")
    if cols:
        return offsets.shape[0] - 1, left.shape[0], right.shape[0]
    return left.shape[0] if out_rows is None else out_rows, right.shape[1]


def _prepare(left, left_scales, right, right_scales, offsets, write_offsets, left_format,
             right_format, out_dtype, out_rows, cols, mode):
    _check_operand(left, left_scales, left_format, "left")
    _check_operand(right, right_scales, right_format, "right")
    side.check_tensor(offsets, "offsets", (torch.int64,))
    if write_offsets is not None:
        side.check_tensor(write_offsets, "write_offsets", (torch.int64,))
    side.check_out_dtype(out_dtype, _OUT_TYPES)
    formats.choose(formats.GEMM_MODES, mode, "mode")
    return _out_shape(left, right, offsets, cols, out_rows)


_TENSORS = ("left", "left_scales", "right", "right_scales", "out", "read_offsets", "write_offsets",
            "status")


class _Plan:
    """A plan of libmxrt and the size of its workspace."""

    __slots__ = ("handle", "workspace_bytes", "destroy")

    def __init__(self, handle, workspace_bytes):
        self.handle, self.workspace_bytes = handle, workspace_bytes
        self.destroy = runtime.locked.mxrt_gemm_plan_destroy


def _make_plan(tensors, names):
    left_format, right_format, cols, mode, accumulate = names
    handle, device = runtime.device(side.uri(tensors["left"].device))
    request = lib.GemmRequest(
        pass_=_COLS if cols else _ROWS, mode=formats.GEMM_MODES[mode],
        left_element=formats.GEMM_ELEMENTS[left_format][0],
        right_element=formats.GEMM_ELEMENTS[right_format][0],
        host_offsets=int(tensors["read_offsets"].device != tensors["left"].device),
        accumulate=int(accumulate))
    for name, x in tensors.items():
        if x is None:
            continue
        own = device
        if x.device != tensors["left"].device:
            own = _HOST if x.device.type == "cpu" else lib.DLDevice(device.device_type,
                                                                    x.device.index)
        setattr(request, name, ctypes.pointer(side.dl_tensor(x, own)))
    plan = ctypes.c_void_p()
    runtime.call("mxrt_gemm_plan_create", handle, request, plan)
    return _Plan(plan, runtime.library.mxrt_gemm_workspace_bytes(plan))


def _check_status(status):
    wrong = [text for bit, text in formats.GEMM_STATUS.items() if status.item() & bit]
    if wrong:
        raise ValueError(f"offsets: {', and '.join(wrong)}")


def _run_plan(plan, tensors, library):
    device = tensors["left"].device
    buffers = lib.GemmBuffers(**{name: x.data_ptr() for name, x in tensors.items() if x is not None})
    if plan.workspace_bytes:
        workspace = torch.empty(plan.workspace_bytes + 256, dtype=torch.uint8, device=device)
        buffers.workspace = -(-workspace.data_ptr() // 256) * 256
        buffers.workspace_bytes = plan.workspace_bytes
    error = lib.CError()
    lib.check(library.mxrt_gemm_run(plan.handle, buffers, side.stream(device), error), error)


def _gemm_into(left, left_scales, right, right_scales, offsets, write_offsets, out, status,
               left_format, right_format, cols, precision, accumulate):
    # On the host what is wrong with offsets is known when the call is done.
    own_status = status is None and not left.is_cuda
    if own_status:
        status = torch.zeros(1, dtype=torch.int32)
    tensors = dict(zip(_TENSORS, (left, left_scales, right, right_scales, out, offsets,
                                  write_offsets, status)))
    names = left_format, right_format, cols, precision, accumulate
    if left.is_cuda and offsets.is_cuda:
        key = ("gemm", names, *((x.device, x.dtype, x.shape, x.stride(), x.data_ptr() & 255)
                                if x is not None else None for x in tensors.values()))
        plan = runtime.plans.get(key)
        if plan is None:
            plan = _make_plan(tensors, names)
            side.keep_plan(key, plan)
        _run_plan(plan, tensors, runtime.locked)
        return
    # On the host, and with offsets that it has to wait for, other threads may run meanwhile.
    plan = _make_plan(tensors, names)
    try:
        _run_plan(plan, tensors, runtime.library)
    finally:
        runtime.library.mxrt_gemm_plan_destroy(plan.handle)
    if own_status:
        _check_status(status)


def _gemm(left, left_scales, right, right_scales, offsets, write_offsets, left_format,
          right_format, out_dtype, out_rows, cols, precision):
    shape = _prepare(left, left_scales, right, right_scales, offsets, write_offsets, left_format,
                     right_format, out_dtype, out_rows, cols, precision)
    out = torch.empty(shape, dtype=out_dtype, device=left.device)
    _gemm_into(left, left_scales, right, right_scales, offsets, write_offsets, out, None,
               left_format, right_format, cols, precision, False)
    return out


def _fake_gemm(left, left_scales, right, right_scales, offsets, write_offsets, left_format,
               right_format, out_dtype, out_rows, cols, precision):
    shape = _prepare(left, left_scales, right, right_scales, offsets, write_offsets, left_format,
                     right_format, out_dtype, out_rows, cols, precision)
    return left.new_empty(shape, dtype=out_dtype)


# "precision" is the mode: torch has a use of its own for an argument of that name.
side.define("grouped_gemm",
            "(Tensor left, Tensor? left_scales, Tensor right, Tensor? right_scales, Tensor offsets, "
            "Tensor? write_offsets, str left_format, str right_format, ScalarType out_dtype, "
            "SymInt? out_rows, bool cols, str precision) -> Tensor", _gemm, _fake_gemm)
side.define("grouped_gemm_into",
            "(Tensor left, Tensor? left_scales, Tensor right, Tensor? right_scales, Tensor offsets, "
            "Tensor? write_offsets, Tensor(a!) out, Tensor(b!)? status, str left_format, "
            "str right_format, bool cols, str precision, bool accumulate) -> ()", _gemm_into,
            lambda *arguments: None)


def grouped_gemm(left, left_scales, right, right_scales, offsets, left_format="mxfp4",
                 right_format="mxfp4", out_dtype=torch.bfloat16, write_offsets=None, out_rows=None,
                 cols=False, mode="fast", out=None, accumulate=False, status=None):
    """The products of all groups in one call (mxgen/gemm.h), with fp32 sums.

    cols False: out[rows of g] = left[rows of g] . right[g]^T, the forward pass and dgrad. left: uint8
    [M, K bytes] with scales [M, K/32]; right: [G, N, K bytes], [G, N, K/32]. With write_offsets group
    g's rows of out are others than its rows of left; out_rows is then the rows of out.
    cols True: out[g] = left[:, range of g] . right[:, range of g]^T, wgrad, over ranges of multiples
    of 32. left: [N, M bytes], right: [K, M bytes]; out: [G, N, K].

    Formats: mxfp4, mxfp8e4m3, mxfp8e5m2, and bf16, which has no scales (None). offsets: int64
    [G + 1], on the tensors' device or on the CPU; a GPU's are not checked (what lies outside is cut
    off), those on the CPU are, and the call waits for the stream first. mode "exact": sums within
    1e-6, "fast": 1e-3.

    out: written, and returned, in place of a new tensor, of which out_dtype and out_rows then tell
    nothing; with accumulate (float32, bfloat16) the products are added to it. status: int32 [1] on the
    tensors' device, written: 0, or what is wrong with the offsets.
    """
    if out is not None:
        side.check_tensor(out, "out", _OUT_TYPES)
        out_dtype, out_rows = out.dtype, out.shape[0]
    elif accumulate:
        raise ValueError("accumulate adds to out, which is None")
    if status is not None:
        side.check_tensor(status, "status", (torch.int32,))
    arguments = (left, left_scales, right, right_scales, offsets, write_offsets, left_format,
                 right_format, out_dtype, out_rows, cols, mode)
    if not torch.compiler.is_compiling():
        _prepare(*arguments)
    if out is None and status is None:
        return torch.ops.mxrt.grouped_gemm(*arguments)
    if out is None:
        shape = _out_shape(left, right, offsets, cols, out_rows)
        out = torch.empty(shape, dtype=out_dtype, device=left.device)
    torch.ops.mxrt.grouped_gemm_into(*arguments[:6], out, status, left_format, right_format, cols,
                                     mode, accumulate)
    return out


# ---- A linear layer of experts ----

def _quantised(x, format, axis, options):
    """Data and scales along the axis, as grouped_gemm takes them: the axis last."""
    shape = formats.swapped(x.shape, axis)[:-1]
    data, scales = side.ocp_quantize(x, format, axis, options)
    return data.reshape(*shape, -1), scales.reshape(*shape, -1)


def _padded(x, offsets):
    """(rows of x with each group padded by zeros to a multiple of _PAD, offsets of that)."""
    sizes = (offsets[1:] - offsets[:-1] + (_PAD - 1)) // _PAD * _PAD
    starts = torch.cat([offsets.new_zeros(1), sizes.cumsum(0)])
    # As many rows as the groups may need, so that nothing waits for the offsets.
    n_rows = (x.shape[0] + (offsets.shape[0] - 1) * (_PAD - 1) + _PAD - 1) // _PAD * _PAD
    row = torch.arange(x.shape[0], device=x.device)
    if torch.compiler.is_compiling():
        # torch's compiler makes wrong code of searchsorted (2.11, CUDA), and none that is slow of this.
        group = (row[:, None] >= offsets[None, 1:]).sum(1)
    else:
        group = torch.searchsorted(offsets[1:], row, right=True)
    # Rows that no group owns go to one that is cut off.
    owned = (group < offsets.shape[0] - 1) & (row >= offsets[0])
    group = group.clamp(max=offsets.shape[0] - 2)
    where = torch.where(owned, row - offsets[group] + starts[group], n_rows)
    room = x.new_zeros(n_rows + 1, x.shape[1])
    return room.index_copy(0, where, x)[:n_rows], starts


def _forward(x, weight, offsets, format, options, mode):
    left, right = _quantised(x, format, -1, options), _quantised(weight, format, -1, options)
    return grouped_gemm(*left, *right, offsets, format, format, x.dtype, mode=mode)


def _input_gradient(grad, weight, offsets, format, options, mode):
    left, right = _quantised(grad, format, -1, options), _quantised(weight, format, 1, options)
    return grouped_gemm(*left, *right, offsets, format, format, grad.dtype, mode=mode)


def _weight_gradient(grad, x, offsets, dtype, format, options, mode):
    grad, ranges = _padded(grad, offsets)
    x, _ = _padded(x, offsets)
    left, right = _quantised(grad, format, 0, options), _quantised(x, format, 0, options)
    return grouped_gemm(*left, *right, ranges, format, format, dtype, cols=True, mode=mode)


def _check_linear(x, weight, offsets, format):
    formats.choose({name: 0 for name, (_, size) in formats.GEMM_ELEMENTS.items() if size}, format,
                   "format")
    side.check_tensor(x, "x", _OUT_TYPES)
    side.check_tensor(weight, "weight", _OUT_TYPES)
    side.check_tensor(offsets, "offsets", (torch.int64,))
    if x.ndim != 2 or weight.ndim != 3 or offsets.ndim != 1 or x.shape[1] != weight.shape[2]:
        raise ValueError(f"x is {list(x.shape)} and weight {list(weight.shape)}; they must be [M, K] "
                         "and [G, N, K]")
    if offsets.shape[0] != weight.shape[0] + 1:
        raise ValueError(f"offsets has {offsets.shape[0]} numbers; {weight.shape[0]} groups need "
                         f"{weight.shape[0] + 1}")


class _GroupedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, offsets, format, profile, mode):
        ctx.save_for_backward(x, weight, offsets)
        ctx.names = format, profile, mode
        return _forward(x, weight, offsets, format, formats.ocp_options(profile), mode)

    @staticmethod
    def backward(ctx, grad):
        x, weight, offsets = ctx.saved_tensors
        format, profile, mode = ctx.names
        options = formats.ocp_options(profile)
        for_x = for_weight = None
        if ctx.needs_input_grad[0]:
            for_x = _input_gradient(grad, weight, offsets, format, options, mode).to(x.dtype)
        if ctx.needs_input_grad[1]:
            for_weight = _weight_gradient(grad, x, offsets, weight.dtype, format, options, mode)
        return for_x, for_weight, None, None, None, None


def grouped_linear(x, weight, offsets, format="mxfp4", profile="alto", mode="fast"):
    """x[rows of g] . weight[g]^T for each group g, all operands quantised; with gradients.

    x: [M, K], weight: [G, N, K], of bfloat16, float32 or float16; offsets: int64 [G + 1], group g has
    the rows offsets[g] .. offsets[g + 1]. The gradients are products of quantised operands, too: of
    x along N (dgrad), of the weight along the rows of each group (wgrad).
    """
    _check_linear(x, weight, offsets, format)
    formats.choose(formats.OCP_PROFILES, profile, "profile")
    return _GroupedLinear.apply(x, weight, offsets, format, profile, mode)
