/* The HIP interface as far as the tests' programs use it, with prototypes of our own. */
#ifndef SIM_HIP_H
#define SIM_HIP_H

#include "hip_api.h"
#include "sim.h"

enum hip_error {
    HIP_OK = 0,
    HIP_INVALID_VALUE = 1,
    HIP_OUT_OF_MEMORY = 2,
    HIP_NOT_INITIALIZED = 3,
    HIP_INVALID_CONFIGURATION = 9,
    HIP_INVALID_DEVICE_FUNCTION = 98,
    HIP_NO_DEVICE = 100,
    HIP_INVALID_DEVICE = 101,
    HIP_INVALID_IMAGE = 200,
    HIP_INVALID_CONTEXT = 201,
    HIP_NO_BINARY = 209,
    HIP_INVALID_HANDLE = 400,
    HIP_NOT_FOUND = 500,
    HIP_NOT_READY = 600,
    HIP_ILLEGAL_ADDRESS = 700,
    HIP_OUT_OF_RESOURCES = 701,
    HIP_LAUNCH_FAILURE = 719,
    HIP_NOT_SUPPORTED = 801,
    HIP_CAPTURE_UNSUPPORTED = 900,
    HIP_CAPTURE_INVALIDATED = 901,
    HIP_CAPTURE_UNMATCHED = 903,
    HIP_UNKNOWN = 999
};

#define HIP_API __attribute__((visibility("default")))

/* Starts a call: counts it, applies fault injection, initialises. Nonzero: return that error. */
int hip_enter(void);
/* Ends a call: remembers an error for hipGetLastError and returns it. */
int hip_leave(int err);
int hip_device_count(void);
int hip_current_device(void);
void hip_live_add(int n);
/* Refuses calls that may not happen while a stream of this thread is being captured. */
int hip_forbid_in_capture(void);

#define HIP_BEGIN()                                                                                \
    do {                                                                                           \
        int begin_ = hip_enter();                                                                  \
        if (begin_)                                                                                \
            return hip_leave(begin_);                                                              \
    } while (0)

/* Work that a captured stream records. */
typedef struct graph_node {
    enum { NODE_LAUNCH, NODE_COPY, NODE_SET } kind;
    kernel *k;
    uint32_t grid[3], block[3], dynamic_lds;
    uint8_t *kernarg;
    void *dst;
    const void *src;
    size_t bytes;
    int value;
    struct graph_node *next;
} graph_node;

struct stream;
/* If the stream is being captured, adds the node to its graph (true); else does nothing. */
bool hip_capture(void *stream, const graph_node *node, int *err);
int hip_run_node(const graph_node *n);
int hip_check_stream(void *stream);
int hip_copy(void *dst, const void *src, size_t bytes);
int hip_set(void *dst, int value, size_t bytes);

#endif
