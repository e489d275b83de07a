/* Selections that were made before, found by the values of all variables.
 *
 * Each slot is a sequence lock whose words are all atomic: a writer makes the sequence odd, writes,
 * and makes it even again; a reader that sees it odd or changed takes it for a miss. So nobody
 * waits, and what a reader uses was written by one writer. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/kernel_table.h"

#define SLOTS 64     /* six bits of the hash */
#define HEAD_WORDS 6 /* variant, grid x and y, grid z and lds, block x and y, block z, age */
#define KEY_WORDS MXRT_VAR_COUNT
#define SLOT_WORDS (KEY_WORDS + HEAD_WORDS + MXPACK_MAX_ARGS)

typedef struct slot {
    _Atomic uint64_t sequence; /* 0: empty; odd: being written */
    _Atomic uint64_t words[SLOT_WORDS];
} slot;

struct mxrt_select_cache {
    _Atomic uint64_t age; /* counts what made all older selections worthless */
    slot slots[SLOTS];
};

mxrt_select_cache *mxrt_select_cache_create(void)
{
    return calloc(1, sizeof(mxrt_select_cache));
}

void mxrt_select_cache_destroy(mxrt_select_cache *cache)
{
    free(cache);
}

/* How many of the values tell problems apart: dimensions that are not there have the same always.
 */
static int count_words(const int64_t *values)
{
    int64_t n_dims = values[MXRT_VAR_N_DIMS];

    return n_dims >= 0 && n_dims < MXPACK_MAX_ROW_DIMS ? MXRT_VAR_DIM((int)n_dims, 0) : KEY_WORDS;
}

/* Four sums side by side, as each has to wait for its multiplications. */
static slot *find_slot(mxrt_select_cache *cache, const int64_t *values, int n_words)
{
    uint64_t sums[4] = {1, 2, 3, 4}, hash;

    _Static_assert(MXRT_VAR_DIM0_SIZE % 4 == 0 && MXRT_DIM_FIELDS % 4 == 0, "words come in fours");
    for (int i = 0; i < n_words; i += 4) {
        for (int k = 0; k < 4; k++)
            sums[k] = (sums[k] ^ (uint64_t)values[i + k]) * 0x9e3779b97f4a7c15u;
    }
    hash = sums[0] ^ (sums[1] >> 7) ^ (sums[2] >> 15) ^ (sums[3] >> 23);
    return &cache->slots[hash * 0x9e3779b97f4a7c15u >> 58];
}

/* Acquire, so that the second look at the sequence comes after the words. */
static uint64_t read_word(const slot *at, int index)
{
    return atomic_load_explicit(&at->words[index], memory_order_acquire);
}

/* Release, so that who sees the word also sees the odd sequence. */
static void write_word(slot *at, int index, uint64_t word)
{
    atomic_store_explicit(&at->words[index], word, memory_order_release);
}

static uint64_t join(uint32_t low, uint32_t high)
{
    return low | (uint64_t)high << 32;
}

static void split(uint64_t word, uint32_t *low, uint32_t *high)
{
    *low = (uint32_t)word;
    *high = (uint32_t)(word >> 32);
}

uint64_t mxrt_select_cache_age(const mxrt_select_cache *cache)
{
    return atomic_load_explicit(&cache->age, memory_order_acquire);
}

void mxrt_select_cache_clear(mxrt_select_cache *cache)
{
    atomic_fetch_add_explicit(&cache->age, 1, memory_order_acq_rel);
}

int mxrt_select_cache_find(mxrt_select_cache *cache, const mxrt_variant *variants,
                           const int64_t values[MXRT_VAR_COUNT], mxrt_selection *out)
{
    int n_words = count_words(values);
    const slot *at = find_slot(cache, values, n_words);
    uint64_t sequence = atomic_load_explicit(&at->sequence, memory_order_acquire);
    uint64_t head[HEAD_WORDS], differs = 0;
    uint32_t unused;

    if (!sequence || sequence & 1)
        return 0;
    for (int i = 0; i < n_words; i++)
        differs |= read_word(at, i) ^ (uint64_t)values[i];
    for (int i = 0; i < HEAD_WORDS; i++)
        head[i] = read_word(at, KEY_WORDS + i);
    differs |= head[5] ^ mxrt_select_cache_age(cache);
    /* The index is only used once it is known to belong to this key. */
    if (differs || atomic_load_explicit(&at->sequence, memory_order_acquire) != sequence)
        return 0;
    const mxrt_variant *variant = &variants[head[0]];
    split(head[1], &out->grid[0], &out->grid[1]);
    split(head[2], &out->grid[2], &out->lds_bytes);
    split(head[3], &out->block[0], &out->block[1]);
    split(head[4], &out->block[2], &unused);
    for (size_t i = 0; i < variant->launch->n_args; i++)
        out->args[i] = (int64_t)read_word(at, KEY_WORDS + HEAD_WORDS + (int)i);
    if (atomic_load_explicit(&at->sequence, memory_order_relaxed) != sequence)
        return 0;
    out->variant = variant;
    return 1;
}

void mxrt_select_cache_store(mxrt_select_cache *cache, const mxrt_variant *variants,
                             const int64_t values[MXRT_VAR_COUNT], const mxrt_selection *selection,
                             uint64_t age)
{
    int n_words = count_words(values);
    slot *at = find_slot(cache, values, n_words);
    uint64_t sequence = atomic_load_explicit(&at->sequence, memory_order_relaxed);

    /* Somebody else is writing: what is remembered is only a convenience. */
    if (sequence & 1 ||
        !atomic_compare_exchange_strong_explicit(&at->sequence, &sequence, sequence + 1,
                                                 memory_order_acq_rel, memory_order_relaxed))
        return;
    for (int i = 0; i < n_words; i++)
        write_word(at, i, (uint64_t)values[i]);
    write_word(at, KEY_WORDS, (uint64_t)(selection->variant - variants));
    write_word(at, KEY_WORDS + 1, join(selection->grid[0], selection->grid[1]));
    write_word(at, KEY_WORDS + 2, join(selection->grid[2], selection->lds_bytes));
    write_word(at, KEY_WORDS + 3, join(selection->block[0], selection->block[1]));
    write_word(at, KEY_WORDS + 4, join(selection->block[2], 0));
    write_word(at, KEY_WORDS + 5, age);
    for (size_t i = 0; i < selection->variant->launch->n_args; i++)
        write_word(at, KEY_WORDS + HEAD_WORDS + (int)i, (uint64_t)selection->args[i]);
    atomic_store_explicit(&at->sequence, sequence + 2, memory_order_release);
}
