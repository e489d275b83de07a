#include "gen/resources.h"

#include "gen/template.h"

#include <elf.h>
#include <string.h>

#include "gen/target.h"
#include "mxgen/error.h"

enum { NT_AMDGPU_METADATA = 32, MOST_DEPTH = 16 };

/* A cursor over MessagePack; `failed` once something does not fit. */
typedef struct reader {
    const uint8_t *at, *end;
    bool failed;
} reader;

typedef enum item_kind { ITEM_OTHER = 0, ITEM_INT, ITEM_STRING, ITEM_ARRAY, ITEM_MAP } item_kind;

typedef struct item {
    item_kind kind;
    uint64_t value; /* integer, length in bytes, or count of elements or pairs */
    const char *text;
} item;

static uint64_t take(reader *r, unsigned bytes)
{
    uint64_t value = 0;
    if ((size_t)(r->end - r->at) < bytes) {
        r->failed = true;
        return 0;
    }
    for (unsigned i = 0; i < bytes; i++)
        value = value << 8 | *r->at++;
    return value;
}

static item text_item(reader *r, uint64_t length)
{
    item it = {ITEM_STRING, length, (const char *)r->at};
    if ((uint64_t)(r->end - r->at) < length)
        r->failed = true;
    else
        r->at += length;
    return it;
}

/* Containers are returned by their head; their elements follow. */
static item next(reader *r)
{
    unsigned tag = (unsigned)take(r, 1);
    if (tag < 0x80)
        return (item){ITEM_INT, tag, NULL};
    if (tag < 0x90)
        return (item){ITEM_MAP, tag & 15, NULL};
    if (tag < 0xa0)
        return (item){ITEM_ARRAY, tag & 15, NULL};
    if (tag < 0xc0)
        return text_item(r, tag & 31);
    switch (tag) {
    case 0xcc:
    case 0xcd:
    case 0xce:
    case 0xcf:
        return (item){ITEM_INT, take(r, 1u << (tag - 0xcc)), NULL};
    case 0xd9:
    case 0xda:
    case 0xdb:
        return text_item(r, take(r, 1u << (tag - 0xd9)));
    case 0xdc:
    case 0xdd:
        return (item){ITEM_ARRAY, take(r, 2u << (tag - 0xdc)), NULL};
    case 0xde:
    case 0xdf:
        return (item){ITEM_MAP, take(r, 2u << (tag - 0xde)), NULL};
    case 0xc0:
    case 0xc2:
    case 0xc3:
        return (item){ITEM_OTHER, tag, NULL};
    default:
        /* Floats, signed integers, binary: metadata has none. */
        r->failed = true;
        return (item){ITEM_OTHER, 0, NULL};
    }
}

static void skip(reader *r, item it, int depth)
{
    if (depth > MOST_DEPTH)
        r->failed = true;
    uint64_t n = it.kind == ITEM_ARRAY ? it.value : it.kind == ITEM_MAP ? 2 * it.value : 0;
    for (uint64_t i = 0; i < n && !r->failed; i++)
        skip(r, next(r), depth + 1);
}

static bool text_is(item it, const char *text)
{
    return it.kind == ITEM_STRING && it.value == strlen(text) && !memcmp(it.text, text, it.value);
}

static void set_figure(mxgen_resources *out, item key, uint64_t value)
{
    const struct {
        const char *key;
        int *figure;
    } figures[] = {{".vgpr_count", &out->vgprs},
                   {".agpr_count", &out->agprs},
                   {".sgpr_count", &out->sgprs},
                   {".group_segment_fixed_size", &out->lds_bytes},
                   {".private_segment_fixed_size", &out->scratch_bytes}};
    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++) {
        if (text_is(key, figures[i].key))
            *figures[i].figure = (int)value;
    }
    if (text_is(key, ".vgpr_spill_count") || text_is(key, ".sgpr_spill_count"))
        out->spills = (out->spills < 0 ? 0 : out->spills) + (int)value;
}

/* One kernel's map; true if it is the wanted one's. */
static bool read_kernel(reader *r, const char *symbol, mxgen_resources *out)
{
    mxgen_resources found;
    bool wanted = false;
    memset(&found, -1, sizeof(found));
    item map = next(r);
    for (uint64_t i = 0; i < map.value && map.kind == ITEM_MAP && !r->failed; i++) {
        item key = next(r), value = next(r);
        if (value.kind == ITEM_INT)
            set_figure(&found, key, value.value);
        else if (text_is(key, ".name"))
            wanted = text_is(value, symbol);
        else
            skip(r, value, 0);
    }
    if (wanted && !r->failed)
        *out = found;
    return wanted && !r->failed;
}

static void read_metadata(const uint8_t *data, size_t size, const char *symbol,
                          mxgen_resources *out)
{
    reader r = {data, data + size, false};
    item map = next(&r);
    for (uint64_t i = 0; i < map.value && map.kind == ITEM_MAP && !r.failed; i++) {
        item key = next(&r), value = next(&r);
        if (!text_is(key, "amdhsa.kernels") || value.kind != ITEM_ARRAY) {
            skip(&r, value, 0);
            continue;
        }
        for (uint64_t k = 0; k < value.value && !r.failed; k++) {
            if (read_kernel(&r, symbol, out))
                return;
        }
    }
}

static const Elf64_Shdr *section_at(const uint8_t *image, size_t size, unsigned index)
{
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)image;
    uint64_t offset = header->e_shoff + (uint64_t)index * sizeof(Elf64_Shdr);
    if (header->e_shentsize != sizeof(Elf64_Shdr) || offset > size ||
        size - offset < sizeof(Elf64_Shdr) || offset % 8)
        return NULL;
    const Elf64_Shdr *section = (const Elf64_Shdr *)(image + offset);
    bool inside = section->sh_type == SHT_NOBITS ||
                  (section->sh_offset <= size && size - section->sh_offset >= section->sh_size);
    return inside ? section : NULL;
}

static void read_notes(const uint8_t *notes, size_t size, const char *symbol, mxgen_resources *out)
{
    size_t at = 0;
    while (size - at >= sizeof(Elf64_Nhdr)) {
        Elf64_Nhdr note;
        memcpy(&note, notes + at, sizeof(note));
        size_t name = at + sizeof(note), data = name + (note.n_namesz + 3u) / 4 * 4;
        size_t end = data + (note.n_descsz + 3u) / 4 * 4;
        if (data > size || size - data < note.n_descsz)
            return;
        if (note.n_type == NT_AMDGPU_METADATA)
            read_metadata(notes + data, note.n_descsz, symbol, out);
        if (end > size)
            return;
        at = end;
    }
}

/* The function's entry in a table of symbols. */
static bool find_symbol(const uint8_t *image, size_t size, const Elf64_Shdr *table,
                        const char *symbol, Elf64_Sym *out)
{
    const Elf64_Shdr *strings = section_at(image, size, table->sh_link);
    if (!strings || strings->sh_type == SHT_NOBITS)
        return false;
    for (uint64_t i = 0; i < table->sh_size / sizeof(Elf64_Sym); i++) {
        memcpy(out, image + table->sh_offset + i * sizeof(*out), sizeof(*out));
        if (out->st_name >= strings->sh_size || ELF64_ST_TYPE(out->st_info) != STT_FUNC)
            continue;
        const char *name = (const char *)image + strings->sh_offset + out->st_name;
        size_t most = strings->sh_size - out->st_name;
        if (strnlen(name, most) < most && !strcmp(name, symbol))
            return true;
    }
    return false;
}

static bool has_symbols(const Elf64_Ehdr *header, const Elf64_Shdr *section)
{
    /* Cubins have no dynamic symbols. */
    return section && section->sh_type == (header->e_machine == EM_CUDA ? SHT_SYMTAB : SHT_DYNSYM);
}

static bool is_elf(const void *image, size_t image_bytes)
{
    return image_bytes >= sizeof(Elf64_Ehdr) && !memcmp(image, ELFMAG, SELFMAG);
}

const uint8_t *mxgen_resources_code(const void *image, size_t image_bytes, const char *symbol,
                                    size_t *code_bytes)
{
    const Elf64_Ehdr *header = image;
    Elf64_Sym entry;
    bool found = false;
    if (!is_elf(image, image_bytes))
        return NULL;
    for (unsigned i = 0; i < header->e_shnum && !found; i++) {
        const Elf64_Shdr *section = section_at(image, image_bytes, i);
        found = has_symbols(header, section) &&
                find_symbol(image, image_bytes, section, symbol, &entry);
    }
    const Elf64_Shdr *home = found ? section_at(image, image_bytes, entry.st_shndx) : NULL;
    if (!home || home->sh_type == SHT_NOBITS || entry.st_value < home->sh_addr ||
        entry.st_value - home->sh_addr > home->sh_size ||
        home->sh_size - (entry.st_value - home->sh_addr) < entry.st_size)
        return NULL;
    *code_bytes = entry.st_size;
    return (const uint8_t *)image + home->sh_offset + (entry.st_value - home->sh_addr);
}

void mxgen_resources_read(const mxgen_target *target, const void *image, size_t image_bytes,
                          const char *symbol, mxgen_resources *out)
{
    const Elf64_Ehdr *header = image;
    memset(out, -1, sizeof(*out));
    Elf64_Sym entry;
    if (!is_elf(image, image_bytes))
        return;
    for (unsigned i = 0; i < header->e_shnum; i++) {
        const Elf64_Shdr *section = section_at(image, image_bytes, i);
        if (section && section->sh_type == SHT_NOTE)
            read_notes((const uint8_t *)image + section->sh_offset, section->sh_size, symbol, out);
        if (has_symbols(header, section) &&
            find_symbol(image, image_bytes, section, symbol, &entry))
            out->code_bytes = (int)entry.st_size;
    }
    if (out->vgprs >= 0)
        out->occupancy = mxgen_target_occupancy(target, out->vgprs);
}

json_t *mxgen_resources_object(const mxgen_resources *figures)
{
    const struct {
        const char *name;
        int value;
    } members[] = {{"registers", figures->registers},  {"vgprs", figures->vgprs},
                   {"agprs", figures->agprs},          {"sgprs", figures->sgprs},
                   {"lds_bytes", figures->lds_bytes},  {"scratch_bytes", figures->scratch_bytes},
                   {"spills", figures->spills},        {"occupancy", figures->occupancy},
                   {"code_bytes", figures->code_bytes}};
    json_t *info = json_object();
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        if (members[i].value >= 0)
            json_object_set_new(info, members[i].name, json_integer(members[i].value));
    }
    return info;
}

mx_status mxgen_resources_json(const mxgen_resources *figures, const mxgen_spec *spec,
                               uint64_t code_id, char **json, mx_error *err)
{
    char code[20];
    json_t *info = mxgen_resources_object(figures);
    snprintf(code, sizeof(code), "%016llx", (unsigned long long)code_id);
    json_object_set_new(info, "template", json_string(spec->tmpl->name));
    json_object_set_new(info, "cost", json_real(spec->tmpl->cost(spec)));
    json_object_set_new(info, "code", json_string(code));
    char *text = json_dumps(info, JSON_COMPACT | JSON_REAL_PRECISION(6));
    json_decref(info);
    if (!text)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for a kernel's figures");
    *json = text;
    return MX_OK;
}
