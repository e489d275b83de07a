/* Inside of the conformance suite: geometries, values, memory, and the check of one problem. */
#ifndef MXGEN_CONFORM_ENGINE_H
#define MXGEN_CONFORM_ENGINE_H

#include "tests/cases.h"
#include "tests/conformance.h"

/* ---- Values (conform_values.c) ---- */

/* Distributions of the shared cases first, by their numbers. */
typedef enum conform_values {
    CONFORM_CLAMP = MX_VALUES_COUNT, /* ties of the block's scale and their neighbours, up to
                                        what rounds to the clamp; every block exponent */
    CONFORM_EXPONENTS, /* every block exponent, pairs some powers below it, edges of mantissas */
    CONFORM_ALONE,     /* every bit pattern at `position`, the others zero */
    CONFORM_NEAR,      /* every bit pattern at `position`, the others of like magnitude */
    CONFORM_MIXED,     /* every bit pattern at every position, random partners */
    CONFORM_VALUES_COUNT
} conform_values;

typedef struct conform_source {
    int values; /* mx_values or conform_values */
    int position;
    uint64_t seed;
} conform_source;

const char *conform_values_name(int values);

/* Elements of whole blocks, one block after the other. */
void conform_fill_plain(const conform_source *source, mx_format format, mx_dtype dtype,
                        void *elements, int64_t n_blocks);
/* Packed records, one after the other: every byte 0 and every set of demotion bits in turn with
 * random codes; short lists favour exponents that the type has. */
void conform_fill_packed(const conform_source *source, mx_format format, mx_dtype dtype,
                         unsigned char *records, int64_t n_blocks);

/* ---- Geometries (conform_geometry.c) ---- */

/* `x` has shape, axis and the memory of the input or, for `from`, of the packed side; `y` the
 * memory of plain outputs. */
typedef struct conform_geometry {
    char name[64];
    mx_case x, y;
    int in_place; /* qdq runs within x */
} conform_geometry;

/* Both sides alike. */
conform_geometry conform_geometry_of(const mx_case *c);
conform_geometry conform_geometry_shape(const char *name, int ndim, const int64_t *shape, int axis);
/* Random memory such that kernels of this layout may apply. */
conform_geometry conform_geometry_random(mx_layout layout, uint64_t seed, int quick);

/* Where logical element `column` of row `row`, in the order of blocks, begins: elements from the
 * tensor's first. */
int64_t conform_element_offset(const mx_case *c, int64_t row, int64_t column);
int64_t conform_rows(const mx_case *c);
int64_t conform_length(const mx_case *c);

/* Between blocks side by side and a tensor in memory, whose base includes the offset. */
void conform_scatter_plain(const mx_case *c, int element_bytes, const void *elements, void *base);
void conform_scatter_packed(const mx_case *c, mx_format format, const void *records, void *base);

/* ---- Memory (conform_memory.c) ---- */

typedef enum conform_placement {
    CONFORM_GUARDED = 0, /* guard bytes on both sides */
    CONFORM_FENCE_END, /* host: ends where an inaccessible page begins; else an exact allocation */
    CONFORM_FENCE_BEGIN, /* host: begins where an inaccessible page ends */
    CONFORM_PLACEMENT_COUNT
} conform_placement;

/* Memory for one tensor of any size, kept between problems. */
typedef struct conform_memory {
    mxrt_device *device;
    int is_host;
    void *guarded;
    size_t guarded_bytes;
    unsigned char *fenced; /* host: a mapping with inaccessible pages at both ends */
    size_t fenced_bytes;
    void *exact;
} conform_memory;

typedef struct conform_place {
    unsigned char *begin; /* on the device */
    size_t lead;          /* guard bytes before the tensor's memory */
    size_t bytes, total;  /* of the tensor's memory; with guards */
} conform_place;

void conform_memory_init(conform_memory *memory, mxrt_device *device, int is_host);
void conform_memory_finish(conform_memory *memory);
mx_status conform_memory_place(conform_memory *memory, conform_placement placement, size_t bytes,
                               conform_place *out, mx_error *err);

/* ---- Problems (conformance.c) ---- */

enum {
    CONFORM_BEST_ONLY = 1 << 0,      /* what selection takes, not every variant */
    CONFORM_UNREACHED_ONLY = 1 << 1, /* variants that no other problem has reached */
    CONFORM_LARGE = 1 << 2,          /* one run of each variant with several programs */
};

typedef struct conform_keys {
    unsigned ops, formats, dtypes; /* bit sets; 0 is all */
    unsigned flags;
} conform_keys;

/* All operations, formats and types of `keys` on a geometry. */
void conform_check(conform *run, const conform_geometry *geometry, const conform_source *source,
                   const conform_keys *keys);
/* One operation on given input, with given output; both as blocks side by side. */
void conform_check_bytes(conform *run, const conform_geometry *geometry, mx_op op, mx_format format,
                         mx_dtype dtype, const void *input, const void *output);

const conform_options *conform_get_options(const conform *run);
void conform_skip(conform *run, const char *what, const char *why);

/* For checks with tensors of their own (conform_ocp.c). */
mxrt_device *conform_device(conform *run, mxrt_device_info *info); /* info may be NULL */
int conform_is_host(const conform *run);
/* Memory of the input, the output, and more. */
enum { CONFORM_SIDES = 7 };
conform_memory *conform_memory_of(conform *run, int side);
/* Counts a failure and prints it unless there were many. */
void conform_report(conform *run, const char *variant, const char *what, const char *why);
/* A run of a variant (NULL: of the best) has ended; failures were reported. */
void conform_count(conform *run, const char *variant, int passed);
/* Moves the variants that the options and flags ask for to the front and returns their number. */
size_t conform_choose(conform *run, const char **names, size_t n, unsigned flags);
/* Whether the pack has kernels of the key that the options ask for. */
int conform_has(const conform *run, mx_op op, mx_format format, mx_dtype dtype);

/* ---- The OCP formats (conform_ocp.c), as sections ---- */

void conform_run_ocp_memory(conform *run);
void conform_run_ocp_values(conform *run);
void conform_run_ocp_patterns(conform *run);
void conform_run_ocp_pairs(conform *run);
void conform_run_ocp_turned(conform *run);
void conform_run_ocp_reach(conform *run);

/* ---- Sections (conform_sections.c) ---- */

typedef struct conform_section {
    const char *name;
    void (*run)(conform *run);
} conform_section;

extern const conform_section conform_sections[];
extern const size_t conform_n_sections;

#endif
