/* One suite for every device: all variants of a kernel pack against the plain C reference, byte for
 * byte. Output memory is poisoned and guarded, input memory has traps around its elements.
 *
 * A run is a list of sections; totals and coverage add up over them. */
#ifndef MXGEN_CONFORMANCE_H
#define MXGEN_CONFORMANCE_H

#include <mxgen/rt.h>

typedef struct conform_options {
    const char *uri;      /* NULL: "host" */
    const char *pack;     /* a file; required */
    const char *data_dir; /* sets of expected bytes; NULL: that section is skipped */
    /* Bit sets of the enums; 0 is all. */
    unsigned ops, formats, dtypes, layouts;
    uint64_t seed;
    /* Fewer and smaller geometries: for sanitizers and simulators. Coverage is still complete. */
    int quick;
    /* Only so many variants a request, those least covered so far; 0: all that apply. */
    size_t variants_per_request;
} conform_options;

typedef struct conform_totals {
    size_t passed, failed; /* runs of a kernel on a problem */
    size_t skipped;        /* problems without an applicable kernel, sections without data */
    size_t variants, unreached;
} conform_totals;

typedef struct conform conform;

/* Strings of the options must outlive the run. MX_ERR_NOT_FOUND if there is no such device. */
mx_status conform_create(const conform_options *options, conform **out, mx_error *err);
void conform_destroy(conform *run);

size_t conform_section_count(void);
const char *conform_section_name(size_t section);
/* Prints what failed to stderr, with all that is needed to run it again. */
void conform_run_section(conform *run, size_t section);

/* Lists to stderr the variants that no section reached, and counts each as a failure. */
void conform_check_coverage(conform *run);
conform_totals conform_get_totals(const conform *run);

#endif
