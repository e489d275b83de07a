/*
 * A bench for single instructions: inline assembly in kernels that are built in-process, linked and
 * run on the simulator. A case's inputs are one dword per lane and register, 64 lanes:
 * in[register * 64 + lane]; results likewise.
 */
#ifndef SIM_RIG_H
#define SIM_RIG_H

#include <check.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RIG_LANES = 64 };

typedef struct rig_case {
    /* "$0" is the result, "$1" and on are the inputs; VCC and EXEC stand for the wave's masks. */
    const char *text;
    const char *ins; /* a letter and a width each: "v1v2s1" */
    int out;         /* registers of the result */
} rig_case;

typedef struct rig_module rig_module;

void rig_init(void); /* loads the library named by MX_TEST_SIM */
const char *rig_arch(void);
int rig_gen(void); /* 9, 11, 12 */
bool rig_is(const char *arch);
int rig_wave(void);

/* Aborts the test on any failure. */
rig_module *rig_build(const rig_case *cases, size_t n);
rig_module *rig_build_ir(const char *ir);        /* whole kernels; {VCC} and {EXEC} as above */
void *rig_object(const char *ir, size_t *bytes); /* the linked code object; free() it */
void rig_free(rig_module *m);
/* Runs case k; inputs and results as above. */
void rig_run(rig_module *m, size_t k, const uint32_t *in, size_t in_regs, uint32_t *out,
             size_t out_regs);
/* The same, but a finding is expected that contains `text`. */
void rig_expect_report(rig_module *m, size_t k, const uint32_t *in, size_t in_regs, size_t out_regs,
                       const char *text);
void *rig_function(rig_module *m, const char *name);
int rig_launch(void *fn, unsigned grid, unsigned block, unsigned lds, void **args);

void *rig_symbol(const char *name);
#define RIG_CALL(name, type) ((type)rig_symbol(name))

uint32_t rig_random(void);
void rig_seed(uint32_t seed);
/* A float's bits with every kind of value in the mix. */
uint32_t rig_random_float(void);

float rig_f(uint32_t u);
uint32_t rig_u(float f);
bool rig_same_float(uint32_t a, uint32_t b); /* equal bits, or both NaN */

/* Runs the suite; the exit status. */
int rig_main(const char *name, void (*fill)(TCase *tc));

#endif
