"""Formats, operations and options by name (mxgen/format.h, mxgen/ocp.h)."""

from ._library import DLDataType, OcpOptions

BLOCK = 16  # elements of a packed block
OCP_BLOCK = 32

# name: (number, bytes a block)
PACKED = {"mx9": (0, 18), "mx6": (1, 12), "mx4": (2, 8)}
OCP = {"mxfp4": (3, 16), "mxfp6e2m3": (4, 24), "mxfp6e3m2": (5, 24), "mxfp8e4m3": (6, 32),
       "mxfp8e5m2": (7, 32), "mxint8": (8, 32)}
CONVERTED = {name: PACKED[name] for name in ("mx9", "mx6")}
OP_TO, OP_FROM, OP_QDQ = 0, 1, 2
PROFILES = {"packed": 0, "demoted-255": 1}

DL_TYPES = {"float32": DLDataType(2, 32, 1), "float16": DLDataType(2, 16, 1),
            "bfloat16": DLDataType(4, 16, 1), "uint8": DLDataType(1, 8, 1),
            "int64": DLDataType(0, 64, 1), "int32": DLDataType(0, 32, 1)}

# Operands of grouped GEMM (mxgen/gemm.h): number and bytes of 32 elements.
GEMM_ELEMENTS = {"mxfp4": (0, 16), "mxfp8e4m3": (1, 32), "mxfp8e5m2": (2, 32), "bf16": (3, None)}
GEMM_MODES = {"fast": 0, "exact": 1}
GEMM_STATUS = {1: "they decrease", 2: "they lie outside the rows",
               4: "a group has fewer rows to read than to write",
               8: "a bound along the contraction is no multiple of 32"}

SCALE_RULES = {"floor": 0, "even": 1, "ceil": 2, "rceil": 3}
ROUNDINGS = {"even": 0, "up": 1, "stochastic": 2}
FLAGS = ("plus_zero", "nan_scale", "overflow", "two_d", "hadamard")
# Options are a tuple of mx_ocp_options' fields in this order: a part of a key.
FIELDS = ("scale_rule", "rounding", "seed", "zero_byte", "min_byte", "min_amax", *FLAGS)
SEED, FIRST_FLAG, TWO_D = FIELDS.index("seed"), FIELDS.index(FLAGS[0]), FIELDS.index("two_d")
_PLAIN = {"scale_rule": 1, "rounding": 0, "seed": 0, "zero_byte": 0, "min_byte": 0,
          "min_amax": 0.0, **dict.fromkeys(FLAGS, 0)}


def _preset(**changes):
    return tuple({**_PLAIN, **changes}.values())


OCP_PROFILES = {
    "alto": _preset(zero_byte=1, min_byte=1),
    "ocp": _preset(scale_rule=0, nan_scale=1),
    "primus": _preset(),
    "te-rocm": _preset(zero_byte=127, rounding=1, plus_zero=1),
    "rceil": _preset(scale_rule=3, nan_scale=1),
    "a8": _preset(scale_rule=3, zero_byte=19, min_amax=1e-30),
}


def choose(table, value, what):
    """table[value], or ValueError with what there is."""
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a str, got {type(value).__name__}")
    if value not in table:
        raise ValueError(f"{what} must be one of {', '.join(map(repr, table))}, got {value!r}")
    return table[value]


def _number(name, value):
    if name == "scale_rule":
        return choose(SCALE_RULES, value, name)
    if name == "rounding":
        return choose(ROUNDINGS, value, name)
    if name in FLAGS:
        return int(bool(value))
    if name == "min_amax":
        return float(value)
    limit = 2**64 if name == "seed" else 255
    value = int(value)
    if not 0 <= value < limit:
        raise ValueError(f"{name} must be 0 to {limit - 1}, got {value}")
    return value


def ocp_options(profile="alto", **changes):
    """The options of a profile, with changes."""
    if not changes and type(profile) is str and profile in OCP_PROFILES:
        return OCP_PROFILES[profile]
    options = list(choose(OCP_PROFILES, profile, "profile"))
    for name, value in changes.items():
        if name not in FIELDS:
            raise TypeError(f"{name} is no option; there are {', '.join(FIELDS)}")
        options[FIELDS.index(name)] = _number(name, value)
    return tuple(options)


_ONE_D, _TWO_D = ocp_options(), ocp_options(two_d=True)


def back_options(two_d):
    """What dequantising needs to know."""
    return _TWO_D if two_d else _ONE_D


def ocp_struct(options):
    return OcpOptions(**dict(zip(FIELDS, options)))


def axis_within(axis, ndim, what="the tensor"):
    """The axis counted from 0."""
    if isinstance(axis, bool) or not isinstance(axis, int):
        raise TypeError(f"axis must be an int, got {type(axis).__name__}")
    if ndim == 0:
        raise ValueError(f"{what} has no dimensions; give a scalar the shape [1]")
    if not -ndim <= axis < ndim:
        raise ValueError(f"axis {axis} is outside {-ndim}..{ndim - 1}, the axes of a tensor of "
                         f"{ndim} dimensions")
    return axis % ndim


def swapped(shape, axis):
    """The shape with the axis where the last dimension is."""
    shape = list(shape)
    axis = axis_within(axis, len(shape))
    shape[axis], shape[-1] = shape[-1], shape[axis]
    return shape


def blocks_of(shape, axis, block):
    """(rows, blocks a row) along the axis; works on symbolic sizes, too."""
    shape = swapped(shape, axis)
    if shape[-1] == 0:
        raise ValueError(f"dimension {axis}, the axis, has size 0; blocks need at least one element")
    rows = 1
    for size in shape[:-1]:
        rows = rows * size
    return rows, (shape[-1] + block - 1) // block


def packed_shape(shape, axis, block_bytes):
    rows, per_row = blocks_of(shape, axis, BLOCK)
    return rows * per_row, block_bytes


def ocp_shapes(shape, axis, block_bytes, two_d):
    """Shapes of data and scales (mxrt_ocp_shape)."""
    rows, per_row = blocks_of(shape, axis, OCP_BLOCK)
    scale_rows = rows
    if two_d:
        sizes = swapped(shape, axis)[:-1]
        tile_m = sizes[-1] if sizes else 1
        scale_rows = (tile_m + OCP_BLOCK - 1) // OCP_BLOCK
        for size in sizes[:-1]:
            scale_rows = scale_rows * size
    return (rows * per_row, block_bytes), (scale_rows, per_row)


def check_packed(shape, format, block_bytes, out_shape, axis):
    """Whether packed blocks of `shape` can be those of `out_shape`; returns what they must be."""
    if len(shape) != 2 or shape[1] != block_bytes:
        raise ValueError(f"{format} packed tensor must be [n_blocks, {block_bytes}], got "
                         f"{list(shape)}")
    wanted = packed_shape(out_shape, axis, block_bytes)
    if shape[0] != wanted[0]:
        raise ValueError(f"packed has {shape[0]} blocks; out_shape {list(out_shape)} along axis "
                         f"{axis} needs {wanted[0]}")
    return wanted


def check_ocp(data_shape, scales_shape, format, block_bytes, out_shape, axis, two_d):
    """Whether data and scales can be those of `out_shape`."""
    wanted = ocp_shapes(out_shape, axis, block_bytes, two_d)
    for name, shape, want in (("data", data_shape, wanted[0]), ("scales", scales_shape, wanted[1])):
        if len(shape) != 2 or shape[0] != want[0] or shape[1] != want[1]:
            raise ValueError(f"{name} of {format} is {list(shape)}; out_shape {list(out_shape)} "
                             f"along axis {axis} needs {list(want)}")
