#include "gen/target.h"

#include <stdio.h>
#include <string.h>

#define AMD "amdgcn-amd-amdhsa"
#define GFX9_CAPS (MXGEN_CAP_EXCHANGE | MXGEN_CAP_UNALIGNED)
#define RDNA_CAPS (MXGEN_CAP_EXCHANGE | MXGEN_CAP_UNALIGNED)
#define HOST_CAPS                                                                                  \
    (MXGEN_CAP_UNALIGNED | MXGEN_CAP_SPLIT_TAIL | MXGEN_CAP_PERMUTE | MXGEN_CAP_SHORTS |           \
     MXGEN_CAP_APART | MXGEN_CAP_PASS_BY)

/* The default features are what each chip's runtime reports most often: xnack off is not forced, so
 * that one object loads under both settings. */
static const mxgen_target targets[] = {
    {"gfx90a", "AMD CDNA2 (MI200): wave64, LDS 64 KiB, MFMA; FP4 and FP8 decoded first", AMD,
     "gfx90a", "", MXGEN_AMDGPU, GFX9_CAPS, 64, 1, 65536, 1024, 512, 8, 8, 104, 20, 0, 4294967295},
    {"gfx942", "AMD CDNA3 (MI300): wave64, LDS 64 KiB, MFMA with FP8; FP4 decoded first", AMD,
     "gfx942", "", MXGEN_AMDGPU, GFX9_CAPS, 64, 1, 65536, 1024, 512, 8, 8, 304, 20, 0, 4294967295},
    {"gfx950", "AMD CDNA4 (MI350): wave64, LDS 160 KiB, scaled MFMA for FP4, FP6, FP8", AMD,
     "gfx950", "", MXGEN_AMDGPU, GFX9_CAPS | MXGEN_CAP_FP8 | MXGEN_CAP_FP4, 64, 1, 163840, 1024,
     512, 8, 8, 256, 20, 0, 4294967295},
    {"gfx1100", "AMD RDNA3 (RX 7900): wave32, LDS 64 KiB, WMMA; FP4 and FP8 decoded first", AMD,
     "gfx1100", "", MXGEN_AMDGPU, RDNA_CAPS, 32, 1, 65536, 1024, 1536, 24, 16, 96, 20, 0,
     4294967295},
    {"gfx1201", "AMD RDNA4 (RX 9070): wave32, LDS 64 KiB, WMMA with FP8; FP4 decoded first", AMD,
     "gfx1201", "", MXGEN_AMDGPU, RDNA_CAPS | MXGEN_CAP_FP8, 32, 1, 65536, 1024, 1536, 24, 16, 64,
     20, 0, 4294967295},
    {"sm_90a", "NVIDIA Hopper (H100, H200): warp 32, shared 48 KiB static, wgmma",
     "nvptx64-nvidia-cuda", "sm_90a", "+ptx80", MXGEN_NVPTX,
     MXGEN_CAP_EXCHANGE | MXGEN_CAP_TILE_MMA | MXGEN_CAP_FP8 | MXGEN_CAP_HALVES, 32, 1, 49152, 1024,
     512, 8, 16, 132, 0, 232448, 0},
    {"host-x86-64-v3", "x86-64 with AVX2, FMA, F16C: 8 lanes", "x86_64-unknown-linux-gnu",
     "x86-64-v3", "", MXGEN_HOST, HOST_CAPS, 8, 8, 32768, 1, 0, 1, 1, 1, 0, 0, 0},
    {"host-x86-64-v4", "x86-64 with AVX-512 F, BW, DQ, VL: 16 lanes", "x86_64-unknown-linux-gnu",
     "x86-64-v4", "", MXGEN_HOST, HOST_CAPS, 16, 16, 32768, 1, 0, 1, 1, 1, 0, 0, 0},
};

size_t mxgen_target_count(void)
{
    return sizeof(targets) / sizeof(targets[0]);
}

const mxgen_target *mxgen_target_at(size_t index)
{
    return index < mxgen_target_count() ? &targets[index] : NULL;
}

const mxgen_target *mxgen_target_find(const char *name)
{
    for (size_t i = 0; name && i < mxgen_target_count(); i++) {
        if (!strcmp(targets[i].name, name))
            return &targets[i];
    }
    return NULL;
}

const char *mxgen_target_name(const mxgen_target *target)
{
    return target->name;
}

const char *mxgen_target_summary(const mxgen_target *target)
{
    return target->summary;
}

const char *mxgen_target_kind(const mxgen_target *target)
{
    static const char *const names[] = {"amdgpu", "nvptx", "host"};
    return names[target->kind];
}

int mxgen_target_occupancy(const mxgen_target *target, int vgprs)
{
    if (target->vgprs == 0)
        return target->max_waves;
    int granule = target->vgpr_granule;
    int used = vgprs <= 0 ? granule : (vgprs + granule - 1) / granule * granule;
    int waves = target->vgprs / used;
    return waves < target->max_waves ? waves : target->max_waves;
}

void mxgen_target_ptx_name(const mxgen_target *target, char *name, size_t name_bytes)
{
    snprintf(name, name_bytes, "compute_%s", target->name + strlen("sm_"));
}
