/* Selections that were made before, found by the values of all variables.
 *
 * Each slot is a sequence lock whose words are all atomic: a writer makes the sequence odd, writes,
 * and makes it even again; a reader that sees it odd or changed takes it for a miss. So nobody
 * waits, and what a reader uses was written by one writer. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/kernel_table.h"

#define SLOTS 64
#define HEAD_WORDS 5 /* variant, grid x and y, grid z and lds, block x and y, block z */
#define KEY_WORDS MXRT_VAR_COUNT
#define SLOT_WORDS (KEY_WORDS + HEAD_WORDS + MXPACK_MAX_ARGS)

typedef struct slot {
    _Atomic uint64_t sequence; /* 0: empty; odd: being written */
    _Atomic uint64_t words[SLOT_WORDS];
} slot;

struct mxrt_select_cache {
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

static slot *find_slot(mxrt_select_cache *cache, const int64_t *values)
{
    /* Dimensions that are not there have the same values always. */
    int64_t n_dims = values[MXRT_VAR_N_DIMS];
    int n_words =
        n_dims >= 0 && n_dims < MXPACK_MAX_ROW_DIMS ? MXRT_VAR_DIM((int)n_dims, 0) : KEY_WORDS;
    uint64_t hash = 0;

    for (int i = 0; i < n_words; i++) {
        hash = (hash ^ (uint64_t)values[i]) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    return &cache->slots[hash % SLOTS];
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

int mxrt_select_cache_find(mxrt_select_cache *cache, const mxrt_variant *variants,
                           const int64_t values[MXRT_VAR_COUNT], mxrt_selection *out)
{
    const slot *at = find_slot(cache, values);
    uint64_t sequence = atomic_load_explicit(&at->sequence, memory_order_acquire);
    uint64_t head[HEAD_WORDS];
    mxrt_selection found;
    uint32_t unused;

    if (!sequence || sequence & 1)
        return 0;
    for (int i = 0; i < KEY_WORDS; i++) {
        if (read_word(at, i) != (uint64_t)values[i])
            return 0;
    }
    for (int i = 0; i < HEAD_WORDS; i++)
        head[i] = read_word(at, KEY_WORDS + i);
    /* The index is only used once it is known to belong to this key. */
    if (atomic_load_explicit(&at->sequence, memory_order_acquire) != sequence)
        return 0;
    found.variant = &variants[head[0]];
    split(head[1], &found.grid[0], &found.grid[1]);
    split(head[2], &found.grid[2], &found.lds_bytes);
    split(head[3], &found.block[0], &found.block[1]);
    split(head[4], &found.block[2], &unused);
    for (size_t i = 0; i < found.variant->launch->n_args; i++)
        found.args[i] = (int64_t)read_word(at, KEY_WORDS + HEAD_WORDS + (int)i);
    if (atomic_load_explicit(&at->sequence, memory_order_relaxed) != sequence)
        return 0;
    *out = found;
    return 1;
}

void mxrt_select_cache_store(mxrt_select_cache *cache, const mxrt_variant *variants,
                             const int64_t values[MXRT_VAR_COUNT], const mxrt_selection *selection)
{
    slot *at = find_slot(cache, values);
    uint64_t sequence = atomic_load_explicit(&at->sequence, memory_order_relaxed);

    /* Somebody else is writing: what is remembered is only a convenience. */
    if (sequence & 1 ||
        !atomic_compare_exchange_strong_explicit(&at->sequence, &sequence, sequence + 1,
                                                 memory_order_acq_rel, memory_order_relaxed))
        return;
    for (int i = 0; i < KEY_WORDS; i++)
        write_word(at, i, (uint64_t)values[i]);
    write_word(at, KEY_WORDS, (uint64_t)(selection->variant - variants));
    write_word(at, KEY_WORDS + 1, join(selection->grid[0], selection->grid[1]));
    write_word(at, KEY_WORDS + 2, join(selection->grid[2], selection->lds_bytes));
    write_word(at, KEY_WORDS + 3, join(selection->block[0], selection->block[1]));
    write_word(at, KEY_WORDS + 4, join(selection->block[2], 0));
    for (size_t i = 0; i < selection->variant->launch->n_args; i++)
        write_word(at, KEY_WORDS + HEAD_WORDS + (int)i, (uint64_t)selection->args[i]);
    atomic_store_explicit(&at->sequence, sequence + 2, memory_order_release);
}
