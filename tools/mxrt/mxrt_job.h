/* What quantize, dequantize and qdq have in common: one input, one output, a list of tensors of
 * which some are converted and the others copied, and the report about them. */
#ifndef MXRT_JOB_H
#define MXRT_JOB_H

#include "mxrt_logical.h"
#include "mxrt_stream.h"

typedef struct job_options {
    engine_options engine;
    tool_filter filter;
    const char *in, *out;
    int64_t max_memory_bytes;
    int json, quiet;
} job_options;

typedef struct job_item {
    const st_tensor *tensor;
    const st_tensor *scales; /* that belong to the input, or NULL */
    const char *name;        /* in the output */
    int converted;
    meta_packed packed;         /* of a converted one (to be released) */
    size_t index, scales_index; /* in the writer */
    int64_t bytes_before, bytes_after;
    stream_counts counts;
} job_item;

typedef struct tool_job {
    const job_options *options;
    const char *verb; /* "quantize", "dequantize" or "qdq" */
    st_reader *reader;
    st_writer *writer;
    tool_engine engine;
    logical_list list; /* where the items come from it */
    job_item *items;
    size_t n_items;
    double seconds;
} tool_job;

/* What differs: lists the items and declares tensors and metadata in the writer. */
typedef mx_status (*job_plan_fn)(tool_job *job, void *user, mx_error *err);
typedef mx_status (*job_convert_fn)(tool_stream *stream, const stream_route *route, job_item *item,
                                    mx_error *err);

/* A subcommand of this kind. */
typedef struct job_command {
    const char *verb, *args_doc, *doc;
    const struct argp *argp; /* options of its own, besides those of all; their input is `input`, */
    void *input;             /* which `plan` gets, too */
    job_plan_fn plan;
    job_convert_fn convert;
} job_command;

/* The whole: parses, opens, plans, converts, commits, reports. Returns the exit status. */
int job_main(const job_command *command, int argc, char **argv);

/* The items: the reader's tensors, none of them converted; or tensors with their scales, those
 * converted that are packed. */
mx_status job_list_reader(tool_job *job, mx_error *err);
mx_status job_list_logical(tool_job *job, const foreign_options *options, mx_error *err);

/* Declares a copy of the item's tensor under its own type and shape. */
mx_status job_declare_copy(tool_job *job, job_item *item, mx_error *err);

#endif
