#include "gen/target_matrix.h"

#include <string.h>

#define MFMA "llvm.amdgcn.mfma.f32."
#define SCALED "llvm.amdgcn.mfma.scale.f32."
#define WMMA "llvm.amdgcn.wmma.f32.16x16x16.bf16"

/* The layouts and cycles are those of AMD's instruction set documents and of PTX's. */
static const mxgen_matrix rows[] = {
    {"gfx90a", MXGEN_MATRIX_MFMA, 32, 2, 1, 1, 16, 4, 4, MFMA "32x32x8bf16.1k", NULL, false, true,
     64, 0},
    {"gfx90a", MXGEN_MATRIX_MFMA, 16, 4, 1, 1, 4, 4, 4, MFMA "16x16x16bf16.1k", NULL, false, true,
     32, 0},
    {"gfx942", MXGEN_MATRIX_MFMA, 32, 2, 1, 1, 16, 4, 4, MFMA "32x32x8bf16.1k", NULL, false, true,
     32, 0},
    {"gfx942", MXGEN_MATRIX_MFMA, 16, 4, 1, 1, 4, 4, 4, MFMA "16x16x16bf16.1k", NULL, false, true,
     16, 0},
    {"gfx950", MXGEN_MATRIX_MFMA, 32, 2, 1, 1, 16, 4, 8, MFMA "32x32x16.bf16",
     SCALED "32x32x64.f8f6f4", false, true, 32, 32},
    {"gfx950", MXGEN_MATRIX_MFMA, 16, 4, 1, 1, 4, 4, 8, MFMA "16x16x32.bf16",
     SCALED "16x16x128.f8f6f4", false, true, 16, 16},
    {"gfx1100", MXGEN_MATRIX_WMMA, 16, 1, 1, 2, 8, 1, 16, WMMA, NULL, false, false, 32, 0},
    {"gfx1201", MXGEN_MATRIX_WMMA, 16, 2, 1, 1, 8, 8, 8, WMMA, NULL, false, false, 16, 0},
    {"sm_90a", MXGEN_MATRIX_QUADS, 16, 4, 2, 1, 8, 2, 4, "llvm.nvvm.mma.m16n8k16.row.col.bf16",
     NULL, true, false, 16, 0},
};

const mxgen_matrix *mxgen_target_matrix(const mxgen_target *target, int tile)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].tile == tile && !strcmp(rows[i].target, target->name))
            return &rows[i];
    }
    return NULL;
}

/* 16 and 32 vector registers: sums, one operand's vectors, and one item of the other. */
static const mxgen_fma fma_rows[] = {
    {"host-x86-64-v3", 6, 2},
    {"host-x86-64-v4", 12, 2},
};

const mxgen_fma *mxgen_target_fma(const mxgen_target *target)
{
    for (size_t i = 0; i < sizeof(fma_rows) / sizeof(fma_rows[0]); i++) {
        if (!strcmp(fma_rows[i].target, target->name))
            return &fma_rows[i];
    }
    return NULL;
}

int mxgen_target_chiplets(const mxgen_target *target)
{
    return !strcmp(target->name, "gfx942") || !strcmp(target->name, "gfx950") ? 8 : 1;
}

int mxgen_target_lds_line(const mxgen_target *target)
{
    return !strcmp(target->name, "gfx950") ? 256 : 128;
}
