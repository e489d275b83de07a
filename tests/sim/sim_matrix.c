#include "sim.h"
bool decode_matrix(inst *in, const parsed *p, const char *m)
{
    (void)in;
    (void)p;
    (void)m;
    return false;
}
