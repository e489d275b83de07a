/* A file's tensors as they are meant: data and scales of a packed tensor are one. */
#ifndef MXRT_LOGICAL_H
#define MXRT_LOGICAL_H

#include "mxrt_meta.h"
#include "mxrt_tool.h"

typedef struct logical_tensor {
    const char *name;        /* lives as long as the list */
    const st_tensor *data;   /* what is in the file */
    const st_tensor *scales; /* NULL where there are none apart */
    int is_packed;
    meta_packed packed; /* of a packed one */
    char *own_name;     /* NULL where the name is that of the data */
} logical_tensor;

typedef struct logical_list {
    logical_tensor *items;
    size_t n;
} logical_list;

/* All tensors of the reader, in its order, scales left out that belong to data. Tensors whose name
 * in the file the filter (NULL: none) leaves out are what they are there. */
mx_status logical_list_init(logical_list *list, const st_reader *reader,
                            const foreign_options *options, const tool_filter *filter,
                            mx_error *err);
void logical_list_finish(logical_list *list); /* takes a zeroed one, too */

/* Options --format and --dtype for files of others; the input is a foreign_options. */
extern const struct argp foreign_argp;

#endif
