/* The kernel pack: the one contract between the generator, which writes it, and the runtime, which
 * reads it. A pack is one SQLite file (application_id MXPACK_APPLICATION_ID, user_version
 * MXPACK_VERSION).
 *
 * A row of `object` is a loadable code object for one target: zstd data, its raw size and the
 * XXH3-64 of the raw bytes (16 lower-case hex digits).
 * A row of `variant` is one way to run one kernel: where it applies (rules), how it is launched,
 * what it costs (info), and `rank`, the static order of preference among the variants of one
 * (target, op, format, dtype, profile, layout), 0 first. `checksum` is the XXH3-64 over the row's
 * other columns in schema order, each as its text form followed by a zero byte. The meta value
 * "checksum" covers the rest in the same way, so that no row can change, come or go unseen: key
 * and value of every other row of meta, by key; id, target, kind, raw_bytes and xxh3 of every
 * object, by id; id and checksum of every variant, by id.
 *
 * NVIDIA's kernels may be in a pack twice, under the same name: machine code for target "sm_90a",
 * PTX for target "compute_90a". The runtime takes the PTX where the driver refuses the machine
 * code. PTX alone may have target "sm_90a".
 *
 * Launch rules are text, so that kernels that are not ours fit too:
 *   rules   [{"rule": "rows are whole blocks", "when": "len % 16 == 0"}, ..]
 *   launch  {"grid": [EXPR, EXPR, EXPR], "block": [EXPR, EXPR, EXPR], "lds_bytes": EXPR,
 *            "args": [{"name": "x", "kind": "pointer", "buffer": "x"},
 *                     {"name": "n_blocks", "kind": "i64", "value": EXPR}, ..]}
 *   params  {"BLOCKS_PER_PROGRAM": 256, ..}
 *   info    {"vgprs": 32, "agprs": 0, "sgprs": 20, "lds_bytes": 0, "scratch_bytes": 0,
 *            "spills": 0, "occupancy": 8, "code_bytes": 1200, ..}
 *           of NVIDIA's machine code "registers" in place of the first three; "spills" counts words
 *           of 4 bytes
 * EXPR is a string in 64-bit integer arithmetic: decimal literals, the variables below,
 * + - * / % (truncating), == != < <= > >= && || !, a ? b : c, parentheses, min(a, b), max(a, b),
 * ceil_div(a, b). Overflow and division by zero are errors. `grid` counts workgroups.
 *
 * Variables. Plain tensors are x (read) and y (written); packed bytes, or the data of an OCP format,
 * are p, its scales s (where there is p). `to` has x and p,
 * `from` has p and y, `qdq` has x and y. What an operation lacks reads as 0.
 *   n_blocks rows len bpr        blocks, rows, elements a row, blocks a row (ceil(len / 16), of OCP
 *                                formats ceil(len / 32))
 *   x_align y_align p_align      largest power of two that divides the address, at most 4096
 *   x_axis_stride y_axis_stride  elements between neighbours along the axis
 *   p_block_stride p_byte_stride bytes between blocks, bytes between bytes of a block
 *   s_align s_row_stride s_block_stride
 *                                the same of scales; bytes between scales of rows, of blocks
 *   tile_m                       rows that 32 x 32 tiles are counted in; 1 without 2-D scales
 *   scale_rule rounding seed_low seed_high zero_byte min_byte min_amax plus_zero nan_scale overflow
 *   two_d hadamard               the fields of mx_ocp_options: enums as numbers, the seed as two
 *                                words (0 where rounding does not use it), min_amax as the bits of
 *                                its f32, switches as 0 or 1
 *   groups group_align capacity c_align c_row_stride t_row_stride t_block_stride c_hadamard
 *                                of layout pair, else 0: groups of rows (0: one, without
 *                                offsets), what their ends are padded to, rows that columns have
 *                                room for, columns' data c and scales t in bytes, whether columns
 *                                are rotated
 *   Of `from` with layout pair, which turns blocks to ones along another axis, y is not there;
 *   tile_m is the length of that axis, which capacity rounds up; x_axis_stride is the rows of p
 *   between its neighbours, y_axis_stride the rows of c between neighbours along the axis of p;
 *   dimensions are those of the matrices, x and y strides rows of p and of c.
 *   n_dims                       row dimensions left after merging, without those of size 1
 *   dimK_size dimK_row_stride dimK_x_stride dimK_y_stride, K = 0 .. MXPACK_MAX_ROW_DIMS-1
 *       row r has coordinate (r / row_stride) % size in dimension K and lies at the sum of
 *       coordinate * stride (elements). Dimension 0 is the one with unit stride where there is
 *       one, the others follow in ascending memory order. Unused dimensions have size 1, row
 *       stride 1, strides 0.
 * Buffers in args are named x, y, p, s; of layout pair also c and t, the columns' data and scales,
 * g and o, the offsets of groups that are read and the padded ones that are written. Kernel
 * arguments lie at their natural alignment, in order, the way the HSA kernarg segment has them. On
 * the host target a kernel is
 *   void symbol(const void *args, int64_t program_begin, int64_t program_end)
 * and runs the programs [begin, end) of the x dimension of its grid; y and z are 1.
 *
 * Grouped GEMM (mxgen/gemm.h). Its rows have op "gemm_rows" or "gemm_cols", format "LEFT.RIGHT" of
 * mxfp4, mxfp8e4m3, mxfp8e5m2 and bf16, the dtype of out, profile "fast" or "exact", layout "tiles".
 * Rows of op "gemm_step" are never chosen: others name them. To `launch` come, if they are needed,
 *   "workspace_bytes": EXPR, "before": ["NAME", ..], "after": ["NAME", ..]
 * the last two at most MXPACK_MAX_STEPS steps of the same target, which are launched in this order
 * before and after the kernel, on the same stream, with the same variables and buffers, their own
 * grids, blocks and arguments; their rules must hold, too. Variables, in place of those above:
 *   m out_rows n k               gemm_rows: rows of left, rows of out, columns of out, contraction.
 *                                gemm_cols: m is the contraction, out is [groups, n, k], out_rows n
 *   groups num_cu accumulate     num_cu: the device's compute units, or fewer if the caller says so
 *   left_row_stride left_group_stride right_row_stride right_group_stride
 *                                bytes between rows, groups; 0 where there are no groups
 *   left_scale_row_stride left_scale_block_stride
 *   right_scale_row_stride right_scale_block_stride right_scale_group_stride
 *                                bytes between scales of rows, of neighbouring blocks, of groups;
 *                                block stride 1, or, transposed, row stride 1; 0 for bf16
 *   out_row_stride out_group_stride
 *                                elements
 *   left_align right_align left_scales_align right_scales_align out_align workspace_align
 * Buffers: left, left_scales, right, right_scales, out, read_offsets, write_offsets (int64
 * [groups + 1], perhaps one address), status (int32, always an address), workspace. All are on the
 * device; what is empty has some valid address. Group g owns rows write_offsets[g] ..
 * write_offsets[g + 1] of out, and reads rows read_offsets[g] .. of left (gemm_cols: the contraction
 * read_offsets[g] .. read_offsets[g + 1]). Kernels trust no offset: the first program of the kernel
 * writes the status, and bounds are clamped to begin_g = clamp(offset, end_(g-1), rows), end_g =
 * clamp(offset, begin_g, rows).
 *
 * Rows whose op, format, dtype, profile or layout a reader does not know are passed over.
 *
 * Kernels that are not of our operations (mxgen/kernel.h) are rows of `kernel`, a table that packs
 * without any do not have; readers that do not know it pass over it. `kernel` is the name under
 * which one is found, `name` that of one choice of its parameters, `rank` the order of preference.
 * The meta value "kernel_checksum" is the XXH3-64 over all columns of all rows, by id, each as its
 * text form followed by a zero byte. Params, rules and info are as above, launch is
 *   {"inputs": [{"name": "x", "kind": "pointer"}, {"name": "n", "kind": "i64"}, ..],
 *    "grid": [EXPR, EXPR, EXPR] or null, "block": [EXPR, EXPR, EXPR] or null, "lds_bytes": INTEGER,
 *    "args": [{"name": "x", "kind": "pointer", "value": "x"},
 *             {"name": "count", "kind": "i32", "value": EXPR}, ..]}
 * Inputs are what the caller gives, args what the function takes. Inputs that are pointers may have
 * "bytes": EXPR, how much of their memory the kernel uses, for tools that run it on memory of theirs. The variables of EXPR are the
 * inputs of kinds i32 and i64 and, of a pointer x, x_align: the largest power of two that divides
 * it, at most 4096. The value of a pointer is an input's name or "0", that of an f32 an input's name
 * or EXPR, converted. Without grid or block the caller gives it. On the host target the grid X, Y, Z
 * lies behind the arguments as three i64, at the next multiple of 8; program p is the workgroup
 * (p % X, p / X % Y, p / X / Y), whose block is one work item. */
#ifndef MXGEN_PACK_H
#define MXGEN_PACK_H

#define MXPACK_APPLICATION_ID 0x4d58504b /* "MXPK" */
#define MXPACK_VERSION 1
#define MXPACK_MAX_ROW_DIMS 7
#define MXPACK_MAX_ARGS 64
#define MXPACK_MAX_STEPS 4                /* before a product, and after it */
#define MXPACK_MAX_OBJECT_BYTES (1 << 30) /* raw */

/* Values of object.kind. */
#define MXPACK_KIND_AMDGPU "elf-amdgpu"  /* HSA code object, v5 */
#define MXPACK_KIND_HOST "elf-host"      /* ELF shared object of the host, no dependencies */
#define MXPACK_KIND_PTX "ptx"            /* text, zero-terminated */
#define MXPACK_KIND_CUBIN "elf-cuda"

/* Keys of `meta`: every pack has these. */
#define MXPACK_META_GENERATOR "generator"           /* "mxgen 0.1.0" */
#define MXPACK_META_GENERATOR_HASH "generator_hash" /* of the generator's and templates' sources */
#define MXPACK_META_COMPILER "compiler"             /* "LLVM 22.1.8, ptxas 13.0.88" */
#define MXPACK_META_CHECKSUM "checksum"             /* see above */

/* Packs with a table `kernel` have this one, too. */
#define MXPACK_META_KERNEL_CHECKSUM "kernel_checksum"

#define MXPACK_SCHEMA_SQL                                                                          \
    "CREATE TABLE meta(key TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL) WITHOUT ROWID;"         \
    "CREATE TABLE object(id INTEGER PRIMARY KEY, target TEXT NOT NULL, kind TEXT NOT NULL,"        \
    " raw_bytes INTEGER NOT NULL, xxh3 TEXT NOT NULL, data BLOB NOT NULL);"                        \
    "CREATE TABLE variant(id INTEGER PRIMARY KEY, object INTEGER NOT NULL REFERENCES object(id),"  \
    " target TEXT NOT NULL, op TEXT NOT NULL, format TEXT NOT NULL, dtype TEXT NOT NULL,"          \
    " profile TEXT NOT NULL, layout TEXT NOT NULL, name TEXT NOT NULL, symbol TEXT NOT NULL,"      \
    " rank INTEGER NOT NULL, params TEXT NOT NULL, rules TEXT NOT NULL, launch TEXT NOT NULL,"     \
    " info TEXT NOT NULL, checksum TEXT NOT NULL, UNIQUE(target, name));"                          \
    "CREATE INDEX variant_by_key ON variant(target, op, format, dtype, profile, layout, rank);"

#define MXPACK_KERNEL_SCHEMA_SQL                                                                   \
    "CREATE TABLE kernel(id INTEGER PRIMARY KEY, object INTEGER NOT NULL REFERENCES object(id),"   \
    " target TEXT NOT NULL, kernel TEXT NOT NULL, name TEXT NOT NULL, symbol TEXT NOT NULL,"       \
    " rank INTEGER NOT NULL, params TEXT NOT NULL, rules TEXT NOT NULL, launch TEXT NOT NULL,"     \
    " info TEXT NOT NULL, UNIQUE(target, name));"

#endif
