/* The kernels of the device tests, compiled by clang for AMD and NVIDIA GPUs. Arguments lie in
 * memory as a pack's launch rule would have them. */
#define GLOBAL __attribute__((address_space(1)))
#define SHARED __attribute__((address_space(3)))

#if defined(__AMDGCN__)
#define KERNEL __attribute__((amdgpu_kernel))

static inline unsigned item_in_group(void)
{
    return __builtin_amdgcn_workitem_id_x();
}

static inline unsigned group(void)
{
    return __builtin_amdgcn_workgroup_id_x();
}

static inline unsigned group_items(void)
{
    return 256;
}

static inline void barrier(void)
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
#else
#define KERNEL __attribute__((nvptx_kernel))

static inline unsigned item_in_group(void)
{
    return __nvvm_read_ptx_sreg_tid_x();
}

static inline unsigned group(void)
{
    return __nvvm_read_ptx_sreg_ctaid_x();
}

static inline unsigned group_items(void)
{
    return __nvvm_read_ptx_sreg_ntid_x();
}

static inline void barrier(void)
{
    __syncthreads();
}
#endif

/* y[i] = x[i] + addend for i < n, in blocks of 256. */
KERNEL void mxtest_add(const GLOBAL int *x, GLOBAL int *y, long n, int addend)
{
    long i = (long)group() * group_items() + item_in_group();
    if (i < n)
        y[i] = x[i] + addend;
}

extern SHARED int dynamic_words[];

/* y = x reversed, through the last 256 of `words` words of dynamic shared memory; one block of 256.
 */
KERNEL void mxtest_reverse(const GLOBAL int *x, GLOBAL int *y, int words)
{
    unsigned i = item_in_group();
    SHARED int *tail = dynamic_words + (words - 256);
    tail[i] = x[i];
    barrier();
    y[i] = tail[255 - i];
}
