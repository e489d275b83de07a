#include "sim.h"
void transpose_result(wave *w, const inst *in)
{
    sim_fault(w, in, -1, "transposing load is not implemented");
}
