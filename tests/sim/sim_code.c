/* Loads a code object: ELF segments, symbols, kernel descriptors, relocations. */
#include "sim.h"

#include <elf.h>
#include <errno.h>
#include <llvm-c/Disassembler.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef EM_AMDGPU
#define EM_AMDGPU 224
#endif
#define DYNAMIC_STACK 16384u
#define MAX_IMAGE (UINT64_C(1) << 30)

typedef struct elf_view {
    const uint8_t *data;
    Elf64_Ehdr eh;
    Elf64_Phdr ph[64];
} elf_view;

/*
 * The interface does not say how long the object is. The kernel copies, and says so where there is
 * nothing to copy: damaged offsets are then an error instead of a crash.
 */
static bool read_object(void *dst, const void *src, size_t bytes)
{
    struct iovec to = {dst, bytes}, from = {(void *)(uintptr_t)src, bytes};
    ssize_t n = process_vm_readv(getpid(), &to, 1, &from, 1, 0);
    if (n < 0 && (errno == ENOSYS || errno == EPERM)) {
        memcpy(dst, src, bytes);
        return true;
    }
    return n == (ssize_t)bytes;
}

static bool view_open(elf_view *v, const void *data, char *err, size_t n)
{
    v->data = data;
    Elf64_Ehdr *e = &v->eh;
    if (!read_object(e, data, sizeof *e) || memcmp(e->e_ident, ELFMAG, SELFMAG) ||
        e->e_ident[EI_CLASS] != ELFCLASS64 || e->e_machine != EM_AMDGPU || e->e_type != ET_DYN ||
        e->e_phentsize != sizeof(Elf64_Phdr)) {
        snprintf(err, n, "not an AMDGPU shared object");
        return false;
    }
    if (e->e_ident[EI_OSABI] != 64 || e->e_ident[EI_ABIVERSION] < 2) {
        snprintf(err, n, "not an HSA code object of version 4 or later");
        return false;
    }
    if ((int)(e->e_flags & 0xff) != sim_chip()->mach) {
        snprintf(err, n, "code object's flags are 0x%x, the device is %s", e->e_flags,
                 sim_chip()->name);
        return false;
    }
    if (e->e_phnum > 64 || e->e_phoff > (1u << 20) ||
        !read_object(v->ph, v->data + e->e_phoff, e->e_phnum * sizeof v->ph[0])) {
        snprintf(err, n, "damaged program header table");
        return false;
    }
    return true;
}

static bool match_target(const uint8_t *desc, size_t bytes, char *err, size_t n)
{
    char target[128] = "";
    metadata_target(desc, bytes, target, sizeof target);
    const char *arch = strstr(target, "--");
    arch = arch ? arch + 2 : target;
    size_t len = strcspn(arch, ":");
    const char *want = sim_chip()->name;
    if (strlen(want) != len || strncmp(arch, want, len)) {
        snprintf(err, n, "code object is for '%s', the device is %s", target, want);
        return false;
    }
    return true;
}

static bool read_notes(program *p, const uint8_t *data, size_t bytes, char *err, size_t n)
{
    size_t at = 0;
    while (at + sizeof(Elf64_Nhdr) <= bytes) {
        Elf64_Nhdr nh;
        memcpy(&nh, data + at, sizeof nh);
        size_t name = at + sizeof nh, desc = name + ((nh.n_namesz + 3u) & ~3u);
        if (desc > bytes || nh.n_descsz > bytes - desc)
            break;
        if (nh.n_type == 32 && nh.n_namesz == 7 && !memcmp(data + name, "AMDGPU", 7)) {
            if (!match_target(data + desc, nh.n_descsz, err, n))
                return false;
            if (metadata_read(p, data + desc, nh.n_descsz)) {
                snprintf(err, n, "damaged metadata note");
                return false;
            }
            return true;
        }
        at = desc + ((nh.n_descsz + 3u) & ~3u);
    }
    snprintf(err, n, "no metadata note");
    return false;
}

static bool map_segments(program *p, const elf_view *v, char *err, size_t n)
{
    const Elf64_Phdr *ph = v->ph;
    uint64_t end = 0;
    for (int i = 0; i < v->eh.e_phnum; i++)
        if (ph[i].p_type == PT_LOAD && ph[i].p_vaddr < MAX_IMAGE && ph[i].p_memsz < MAX_IMAGE &&
            ph[i].p_vaddr + ph[i].p_memsz > end)
            end = ph[i].p_vaddr + ph[i].p_memsz;
    if (!end || end > MAX_IMAGE) { /* sizes that no kernel has are damage */
        snprintf(err, n, "no loadable segments");
        return false;
    }
    p->image_bytes = (end + 4095) & ~UINT64_C(4095);
    p->image = sim_mem_alloc(p->image_bytes, false, 0);
    if (!p->image) {
        snprintf(err, n, "out of memory for a code object of %zu bytes", p->image_bytes);
        return false;
    }
    memset(p->image, 0, p->image_bytes);
    alloc *a = sim_mem_find((uint64_t)p->image);
    a->internal = true;
    a->all_written = true;
    for (int i = 0; i < v->eh.e_phnum; i++) {
        const Elf64_Phdr *h = &ph[i];
        if (h->p_type != PT_LOAD)
            continue;
        if (h->p_filesz > h->p_memsz || h->p_vaddr > p->image_bytes ||
            h->p_memsz > p->image_bytes - h->p_vaddr) {
            snprintf(err, n, "damaged segment");
            return false;
        }
        if (!read_object(p->image + h->p_vaddr, v->data + h->p_offset, h->p_filesz)) {
            snprintf(err, n, "segment outside the object");
            return false;
        }
        if (h->p_flags & PF_X) {
            p->text = (uint64_t)p->image + h->p_vaddr;
            p->text_end = p->text + (h->p_memsz & ~UINT64_C(3));
        }
    }
    if (!p->text) {
        snprintf(err, n, "no code segment");
        return false;
    }
    return true;
}

typedef struct dynamic {
    uint64_t symtab, strtab, hash, gnu_hash, rela, rela_bytes;
} dynamic;

static bool inside(const program *p, uint64_t at, uint64_t bytes)
{
    return at < p->image_bytes && bytes <= p->image_bytes - at;
}

static void read_dynamic(const program *p, const elf_view *v, dynamic *d)
{
    const Elf64_Phdr *ph = v->ph;
    for (int i = 0; i < v->eh.e_phnum; i++) {
        if (ph[i].p_type != PT_DYNAMIC || !inside(p, ph[i].p_vaddr, ph[i].p_memsz))
            continue;
        const Elf64_Dyn *e = (const void *)(p->image + ph[i].p_vaddr);
        for (uint64_t k = 0; k < ph[i].p_memsz / sizeof *e && e[k].d_tag; k++) {
            uint64_t x = e[k].d_un.d_ptr;
            switch (e[k].d_tag) {
            case DT_SYMTAB:
                d->symtab = x;
                break;
            case DT_STRTAB:
                d->strtab = x;
                break;
            case DT_HASH:
                d->hash = x;
                break;
            case DT_RELA:
                d->rela = x;
                break;
            case DT_RELASZ:
                d->rela_bytes = x;
                break;
            default:
                break;
            }
        }
    }
}

/* R_AMDGPU_RELATIVE64 and ABS64 are what a linked object can hold. */
static bool relocate(program *p, const dynamic *d, char *err, size_t n)
{
    if (!d->rela || !inside(p, d->rela, d->rela_bytes))
        return true;
    const Elf64_Rela *r = (const void *)(p->image + d->rela);
    const Elf64_Sym *sym = (const void *)(p->image + d->symtab);
    for (uint64_t i = 0; i < d->rela_bytes / sizeof *r; i++) {
        uint64_t type = ELF64_R_TYPE(r[i].r_info), value;
        if (type == 13)
            value = (uint64_t)p->image + (uint64_t)r[i].r_addend;
        else if (type == 3 &&
                 inside(p, d->symtab + ELF64_R_SYM(r[i].r_info) * sizeof *sym, sizeof *sym))
            value = (uint64_t)p->image + sym[ELF64_R_SYM(r[i].r_info)].st_value +
                    (uint64_t)r[i].r_addend;
        else {
            snprintf(err, n, "relocation of type %llu", (unsigned long long)type);
            return false;
        }
        if (!inside(p, r[i].r_offset, 8)) {
            snprintf(err, n, "relocation outside the image");
            return false;
        }
        memcpy(p->image + r[i].r_offset, &value, 8);
    }
    return true;
}

static bool read_symbols(program *p, const dynamic *d, char *err, size_t n)
{
    if (!d->symtab || !d->strtab || !d->hash || !inside(p, d->hash, 8)) {
        snprintf(err, n, "no dynamic symbol table");
        return false;
    }
    uint32_t count = ((const uint32_t *)(p->image + d->hash))[1];
    const Elf64_Sym *sym = (const void *)(p->image + d->symtab);
    if (!inside(p, d->symtab, (uint64_t)count * sizeof *sym) || !inside(p, d->strtab, 1)) {
        snprintf(err, n, "damaged symbol table");
        return false;
    }
    p->symbols = calloc(count ? count : 1, sizeof *p->symbols);
    if (!p->symbols)
        return false;
    size_t limit = p->image_bytes - d->strtab;
    for (uint32_t i = 0; i < count; i++) {
        const char *name = (const char *)p->image + d->strtab + sym[i].st_name;
        if (sym[i].st_name >= limit || !*name || !sym[i].st_value)
            continue;
        symbol *s = &p->symbols[p->nsymbols++];
        s->addr = (uint64_t)p->image + sym[i].st_value;
        s->size = sym[i].st_size;
        s->name = strndup(name, limit - sym[i].st_name);
    }
    return true;
}

static uint32_t rd32(const uint8_t *p)
{
    uint32_t x;
    memcpy(&x, p, 4);
    return x;
}

static void descriptor(kernel *k, const uint8_t *kd)
{
    int64_t entry;
    memcpy(&entry, kd + 16, 8);
    k->group_bytes = rd32(kd);
    k->private_bytes = rd32(kd + 4);
    if (rd32(kd + 8))
        k->kernarg_bytes = rd32(kd + 8);
    k->entry = (uint64_t)kd + (uint64_t)entry;
    k->rsrc3 = rd32(kd + 44);
    k->rsrc1 = rd32(kd + 48);
    k->rsrc2 = rd32(kd + 52);
    k->properties = (uint16_t)rd32(kd + 56);
    k->preload = (uint16_t)(rd32(kd + 56) >> 16);
    /* A stack whose size the compiler does not know: what the runtime gives by default. */
    if ((k->properties >> 11 & 1) && k->private_bytes < DYNAMIC_STACK)
        k->private_bytes = DYNAMIC_STACK;
    k->wave_size = k->properties >> 10 & 1 ? 32 : 64;
    uint32_t g = k->rsrc1 & 63;
    if (sim_chip()->gen == 9) {
        k->vgpr_limit = (g + 1) * 8;
        k->agpr_base = ((k->rsrc3 & 63) + 1) * 4;
    } else {
        k->vgpr_limit = (g + 1) * (k->wave_size == 32 ? 8 : 4);
        k->agpr_base = 512;
    }
}

static bool find_descriptors(program *p, char *err, size_t n)
{
    for (kernel *k = p->kernels; k; k = k->next) {
        char name[1024];
        if (!k->name)
            continue;
        snprintf(name, sizeof name, "%s.kd", k->name);
        for (size_t i = 0; i < p->nsymbols; i++)
            if (!strcmp(p->symbols[i].name, name) &&
                inside(p, p->symbols[i].addr - (uint64_t)p->image, 64))
                descriptor(k, (const uint8_t *)p->symbols[i].addr);
        if (k->entry < p->text || k->entry >= p->text_end) {
            snprintf(err, n, "kernel %s has no usable descriptor", k->name);
            return false;
        }
    }
    return true;
}

/* Copies the first note segment and reads it. */
static bool load_notes(program *p, const elf_view *v, char *err, size_t n)
{
    for (int i = 0; i < v->eh.e_phnum; i++) {
        const Elf64_Phdr *h = &v->ph[i];
        if (h->p_type != PT_NOTE || h->p_filesz > (1u << 28))
            continue;
        uint8_t *copy = malloc(h->p_filesz + 1);
        bool ok = copy && read_object(copy, v->data + h->p_offset, h->p_filesz);
        if (!ok)
            snprintf(err, n, "notes outside the object");
        ok = ok && read_notes(p, copy, h->p_filesz, err, n);
        free(copy);
        return ok;
    }
    snprintf(err, n, "no notes");
    return false;
}

program *program_load(const void *data, char *err, size_t n)
{
    elf_view v;
    dynamic d = {0};
    if (!view_open(&v, data, err, n))
        return NULL;
    program *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    pthread_mutex_init(&p->lock, NULL);
    bool ok = load_notes(p, &v, err, n);
    ok = ok && map_segments(p, &v, err, n);
    if (ok)
        read_dynamic(p, &v, &d);
    ok =
        ok && read_symbols(p, &d, err, n) && relocate(p, &d, err, n) && find_descriptors(p, err, n);
    if (ok) {
        alloc *a = sim_mem_find((uint64_t)p->image);
        (void)a;
        p->map = calloc((p->text_end - p->text) / 4 + 1, sizeof *p->map);
        ok = p->map != NULL;
    }
    if (ok)
        return p;
    program_free(p);
    return NULL;
}

static void inst_free(inst *in)
{
    if (in->pair) {
        inst *y = in->pair->pair;
        in->pair->text = y->text = NULL;
        in->pair->pair = y->pair = NULL;
        inst_free(in->pair);
        inst_free(y);
    }
    for (int i = 0; i < in->nsrc; i++)
        free(in->src[i].bcast);
    free(in->dpp);
    free(in->mem);
    free(in->mat);
    free(in->text);
    free(in);
}

void program_free(program *p)
{
    if (!p)
        return;
    for (uint64_t i = 0; p->map && i < (p->text_end - p->text) / 4; i++)
        if (p->map[i])
            inst_free(p->map[i]);
    free(p->map);
    for (kernel *k = p->kernels, *next; k; k = next) {
        next = k->next;
        free(k->name);
        free(k->args);
        free(k);
    }
    for (size_t i = 0; i < p->nsymbols; i++)
        free(p->symbols[i].name);
    free(p->symbols);
    for (int i = 0; i < 2; i++)
        if (p->dis[i])
            LLVMDisasmDispose(p->dis[i]);
    if (p->image)
        sim_mem_free(p->image);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

/* The function an address lies in. */
const char *program_symbol(const program *p, uint64_t addr, uint64_t *off)
{
    const symbol *best = NULL;
    for (size_t i = 0; i < p->nsymbols; i++) {
        const symbol *s = &p->symbols[i];
        if (addr >= s->addr && (!best || s->addr > best->addr))
            best = s;
    }
    *off = addr - (best ? best->addr : (uint64_t)p->image);
    return best ? best->name : "?";
}
