#include "runtime/model.h"

#include <math.h>
#include <string.h>

#define ROUND_SHARE 0.05
#define SPREAD_SHARE 0.25
#define CODE_BYTES 32768.0

/* By the beginning of the target's name; the last row serves what is not known. */
static const struct {
    const char *prefix;
    mxrt_model_chip chip; /* without compute units */
} chips[] = {
    {"gfx950", {0, 2048, 131072, 163840, 32, 768}},  {"gfx9", {0, 2048, 131072, 65536, 32, 768}},
    {"gfx1", {0, 2048, 98304, 65536, 32, 512}},      {"sm_", {0, 2048, 65536, 232448, 32, 320}},
    {"compute_", {0, 2048, 65536, 232448, 32, 320}}, {"host", {0, 1, 0, 0, 1, 1}},
    {"", {0, 2048, 65536, 65536, 32, 768}},
};

void mxrt_model_chip_init(const mxrt_device_info *info, mxrt_model_chip *out)
{
    size_t i = 0;

    while (strncmp(info->target, chips[i].prefix, strlen(chips[i].prefix)))
        i++;
    *out = chips[i].chip;
    out->compute_units = info->compute_units > 0 ? info->compute_units : 1;
}

static int integer_member(const json_t *info, const char *name)
{
    json_int_t value = json_integer_value(json_object_get(info, name));

    return value > 0 && value < 1 << 30 ? (int)value : 0;
}

void mxrt_model_kernel_init(const json_t *info, mxrt_model_kernel *out)
{
    double cost = json_number_value(json_object_get(info, "cost"));

    out->cost = cost > 0 ? cost : 1;
    out->registers = integer_member(info, "registers");
    if (!out->registers)
        out->registers = integer_member(info, "vgprs");
    out->lds_bytes = integer_member(info, "lds_bytes");
    out->code_bytes = integer_member(info, "code_bytes");
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t resident_programs(const mxrt_model_chip *chip, const mxrt_model_kernel *kernel,
                                 int64_t threads)
{
    int64_t programs = least(chip->programs, chip->threads / threads);

    if (kernel->registers && chip->registers)
        programs = least(programs, chip->registers / (kernel->registers * threads));
    if (kernel->lds_bytes && chip->lds_bytes)
        programs = least(programs, chip->lds_bytes / kernel->lds_bytes);
    return programs > 0 ? programs : 1;
}

/* Near 1 while `r` is below 1, near `r` above it. */
static double soft_limit(double r)
{
    return sqrt(sqrt(1 + r * r * r * r));
}

/* Programs by places, to whole rounds of them. */
static double unevenness(int64_t programs, int64_t places)
{
    double rounds = (double)programs / (double)places;

    return ceil(rounds) / rounds - 1;
}

double mxrt_model_score(const mxrt_model_chip *chip, const mxrt_model_kernel *kernel,
                        int64_t programs, int64_t threads)
{
    threads = threads < 1 ? 1 : threads;
    programs = programs < 1 ? 1 : programs;
    int64_t units = chip->compute_units;
    int64_t slots = units * resident_programs(chip, kernel, threads);
    double in_flight = (double)least(programs, slots) * (double)threads;
    double score = kernel->cost * soft_limit((double)units * chip->busy_threads / in_flight);

    if (programs > slots)
        score *= 1 + ROUND_SHARE * unevenness(programs, slots);
    else if (programs > units)
        score *= 1 + SPREAD_SHARE * unevenness(programs, units);
    else
        score *= 1 + kernel->code_bytes / CODE_BYTES;
    return score;
}

double mxrt_model_layout(mx_op op, mx_layout layout)
{
    if (layout != MX_LAYOUT_GENERAL)
        return 1;
    return op == MX_OP_TO ? 3.5 : 12;
}
