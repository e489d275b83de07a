/* Findings: the first one of a launch is kept as text and ends the launch. */
#include "sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static char report[4096];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void sim_report_reset(void)
{
    pthread_mutex_lock(&lock);
    report[0] = 0;
    pthread_mutex_unlock(&lock);
}

void sim_report(const char *fmt, ...)
{
    char text[2048];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    pthread_mutex_lock(&lock);
    if (!report[0]) {
        snprintf(report, sizeof report, "%s", text);
        fprintf(stderr, "mxsim: %s\n", text);
    }
    pthread_mutex_unlock(&lock);
}

const char *mxsim_last_report(void)
{
    return report;
}

void mxsim_report_clear(void)
{
    sim_report_reset();
}

void sim_fault(wave *w, const inst *in, int lane, const char *fmt, ...)
{
    char text[1024], where[256], at[64] = "";
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    group *g = w->g;
    uint64_t off = 0;
    const char *sym = program_symbol(in->prog, in->addr, &off);
    snprintf(where, sizeof where, "%s+0x%llx", sym, (unsigned long long)off);
    if (lane >= 0)
        snprintf(at, sizeof at, ", lane %d", lane);
    sim_report("%s: kernel %s, %s, address 0x%llx: '%s', workgroup (%u,%u,%u), wave %d%s", text,
               g->k->name, where, (unsigned long long)(in->addr - (uint64_t)in->prog->image),
               in->text, g->id[0], g->id[1], g->id[2], w->index, at);
    longjmp(g->escape, 1);
}

void exec_invalid(wave *w, const inst *in)
{
    sim_fault(w, in, -1, "unknown instruction (encoding %08x %08x)", in->raw[0], in->raw[1]);
}
