/* The driver's own calls for streams and graphs, which have one form in CUDA and HIP. */
#ifndef DRIVER_GRAPHS_H
#define DRIVER_GRAPHS_H

#include <mxgen/base.h>

typedef struct driver_graphs {
    void *library; /* of the driver, for other symbols; stays open */
    int is_cuda;
    int (*stream_create)(void **stream, unsigned flags);
    int (*stream_destroy)(void *stream);
    int (*capture_begin)(void *stream, int mode);
    int (*capture_end)(void *stream, void **graph);
    int (*graph_instantiate)(void **executable, void *graph, void *node, char *log, size_t bytes);
    int (*graph_launch)(void *executable, void *stream);
    int (*executable_destroy)(void *executable);
    int (*graph_destroy)(void *graph);
} driver_graphs;

/* Finds the library as mxrt does. Functions that it lacks are NULL. On CUDA the primary context
 * becomes current, which the device adopts: streams must be in it. */
mx_status driver_graphs_open(driver_graphs *driver, int is_cuda, mx_error *err);

/* An address in the library by either name. */
void driver_graphs_find(const driver_graphs *driver, void *function, const char *cuda_name,
                        const char *hip_name);

#endif
