/* Shared by the emit layer's files; templates do not include it. */
#ifndef MXGEN_EMIT_INTERNAL_H
#define MXGEN_EMIT_INTERNAL_H

#include "gen/emit.h"

/* LLVM type of a value: a scalar, or a vector on the host. */
LLVMTypeRef mxe_llvm_type(mxe *e, mxe_type type, bool varying);
mxe_value mxe_wrap(LLVMValueRef ref, mxe_type type, bool varying);
mxe_value mxe_poison(mxe *e, mxe_type type, bool varying);
LLVMValueRef mxe_llvm_i32(mxe *e, int64_t value);
/* False, with the failure recorded, for a value that was never made. */
bool mxe_is_set(mxe *e, mxe_value a);
/* Calls an intrinsic; `overloads` are the types it is overloaded on. */
LLVMValueRef mxe_call_intrinsic(mxe *e, const char *name, LLVMTypeRef *overloads,
                                unsigned n_overloads, LLVMValueRef *args, unsigned n_args);
/* Chooses bytes of two words, i32; nibble i of the selector, 0 .. 7, counts bytes of `low` from 0 and
 * of `high` from 4. GPUs. */
LLVMValueRef mxe_permute_bytes(mxe *e, LLVMValueRef high, LLVMValueRef low, unsigned selector);
int mxe_type_bytes(mxe_type type);
bool mxe_type_is_float(mxe_type type);
/* Adds an enum attribute (value 0) or a string attribute at an attribute index. */
void mxe_attr_enum(mxe *e, LLVMValueRef function, unsigned index, const char *name, uint64_t value);
void mxe_attr_string(mxe *e, LLVMValueRef function, const char *name, const char *value);
void mxe_fence(mxe *e, LLVMAtomicOrdering ordering, const char *scope);

#endif
