/*
 * Kernels in plain C, compiled once for a chip and once for the host: case g reads in[g..g+3] and
 * writes out[g]. What the compiler makes of them reaches far into the instruction set.
 */
#ifdef __AMDGCN__
typedef unsigned char uint8_t;
typedef signed char int8_t;
typedef unsigned short uint16_t;
typedef short int16_t;
typedef unsigned uint32_t;
typedef int int32_t;
typedef unsigned long uint64_t;
typedef long int64_t;
#define GLOBAL __attribute__((address_space(1)))
#define INLINE static inline __attribute__((always_inline))
#define CASE(name)                                                                                 \
    INLINE void body_##name(int g, const uint32_t GLOBAL *in, uint32_t GLOBAL *out, int n);        \
    __attribute__((amdgpu_kernel, visibility("protected"))) void name(const uint32_t GLOBAL *in,   \
                                                                      uint32_t GLOBAL *out, int n) \
    {                                                                                              \
        body_##name(index(), in, out, n);                                                          \
    }                                                                                              \
    INLINE void body_##name(int g, const uint32_t GLOBAL *in, uint32_t GLOBAL *out, int n)
INLINE int index(void)
{
    return (int)(__builtin_amdgcn_workgroup_id_x() * 256 + __builtin_amdgcn_workitem_id_x());
}
#else
#include <stdint.h>
#define GLOBAL
#define CASE(name)                                                                                 \
    void host_##name(int g, const uint32_t *in, uint32_t *out, int n);                             \
    void host_##name(int g, const uint32_t *in, uint32_t *out, int n)
#endif

#define A in[g]
#define B in[g + 1]
#define C in[g + 2]
#define D in[g + 3]

static inline float f(uint32_t x)
{
    union {
        uint32_t u;
        float f;
    } v = {x};
    return v.f;
}

static inline uint32_t u(float x)
{
    union {
        float f;
        uint32_t u;
    } v = {x};
    return v.u;
}

static inline _Float16 h(uint32_t x)
{
    union {
        uint16_t u;
        _Float16 h;
    } v = {(uint16_t)x};
    return v.h;
}

static inline uint32_t half_bits(_Float16 x)
{
    union {
        _Float16 h;
        uint16_t u;
    } v = {x};
    return v.u;
}

static inline uint32_t reversed(uint32_t x)
{
    x = (x >> 1 & 0x55555555) | (x & 0x55555555) << 1;
    x = (x >> 2 & 0x33333333) | (x & 0x33333333) << 2;
    x = (x >> 4 & 0x0f0f0f0f) | (x & 0x0f0f0f0f) << 4;
    return __builtin_bswap32(x);
}

static __attribute__((noinline)) uint32_t callee(uint32_t a, uint32_t b)
{
    return a * b ^ (a >> 3);
}

static __attribute__((noinline)) uint32_t fib(uint32_t a)
{
    return a < 2 ? a : fib(a - 1) + fib(a - 2);
}

CASE(add)
{
    out[g] = u(f(A) + f(B));
}

CASE(multiply)
{
    out[g] = u(f(A) * f(B) - f(C));
}

CASE(divide)
{
    out[g] = u(f(A) / f(B));
}

CASE(square_root)
{
    out[g] = u(__builtin_sqrtf(f(A) && f(A) > 0 ? f(A) : 1));
}

CASE(compare)
{
    out[g] = (f(A) < f(B)) | (f(A) <= f(C)) << 1 | (f(A) == f(D)) << 2 | (f(A) != f(B)) << 3 |
             !(f(A) > f(B)) << 4 | __builtin_isunordered(f(A), f(B)) << 5;
}

CASE(roundings)
{
    out[g] = u(__builtin_rintf(f(A))) + u(__builtin_floorf(f(B))) * 3 +
             u(__builtin_ceilf(f(C))) * 5 + u(__builtin_truncf(f(D))) * 7;
}

CASE(mul_int)
{
    out[g] = A * B + C;
}

CASE(mulhi)
{
    out[g] =
        (uint32_t)(((uint64_t)A * B) >> 32) + (uint32_t)(((int64_t)(int32_t)A * (int32_t)C) >> 32);
}

CASE(div_int)
{
    out[g] = A / (B | 1) + (int32_t)C / (int32_t)(D | 1);
}

CASE(modulo)
{
    out[g] = A % (B | 1);
}

CASE(mul64)
{
    uint64_t x = ((uint64_t)A << 32 | B) * ((uint64_t)C << 32 | D);
    x += x >> 13;
    x ^= x << 7;
    out[g] = (uint32_t)(x >> 32) ^ (uint32_t)x;
}

CASE(div64)
{
    uint64_t x = ((uint64_t)A << 32 | B) / (((uint64_t)C << 20 | D) | 1);
    out[g] = (uint32_t)(x >> 32) ^ (uint32_t)x;
}

CASE(shift)
{
    out[g] = (A << (B & 31)) ^ (A >> (C & 31)) ^ ((int32_t)A >> (D & 31));
}

CASE(shift64)
{
    int64_t x = (uint64_t)A << 32 | B;
    x = (x << (C & 63)) ^ (x >> (D & 63)) ^ ((uint64_t)x >> ((C ^ D) & 63));
    out[g] = x ^ (x >> 32);
}

CASE(bit_counts)
{
    out[g] = __builtin_popcount(A) + (B ? __builtin_clz(B) : 32) * 37 +
             (C ? __builtin_ctz(C) : 32) * 1000;
}

CASE(bytes)
{
    uint32_t s = 0;
    for (int i = 0; i < 4; i++)
        s += (((uint8_t)(A >> 8 * i)) * (int8_t)(B >> (8 * i))) << i;
    out[g] = s;
}

CASE(permute_bytes)
{
    out[g] = (A & 0xff) << 24 | (A & 0xff00) << 8 | (A >> 8 & 0xff00) | A >> 24;
    out[g] ^= (B << 8) | (C >> 24);
}

CASE(minmax)
{
    int32_t a = A, b = B, c = C;
    int32_t m = a < b ? a : b;
    int32_t M = m > c ? m : c;
    uint32_t x = A < B ? A : B;
    uint32_t y = x > C ? x : C;
    out[g] = M ^ y * 3;
}

CASE(clamps)
{
    int32_t a = A;
    a = a < -100 ? -100 : a > 127 ? 127 : a;
    float x = f(B);
    x = x < -3 ? -3 : x > 5 ? 5 : x;
    out[g] = a ^ u(x);
}

CASE(converts)
{
    float x = f(A);
    int32_t i = (x > -2e9f && x < 2e9f) ? (int32_t)x : 7;
    uint32_t j = (f(B) >= 0 && f(B) < 4e9f) ? (uint32_t)f(B) : 9;
    out[g] = i ^ j ^ u((float)(int32_t)C) ^ u((float)D);
}

CASE(ubyte)
{
    out[g] = u((float)(A & 255) + (float)(A >> 8 & 255) * 2 + (float)(A >> 16 & 255) * 4 +
               (float)(A >> 24) * 8);
}

CASE(loop)
{
    uint32_t s = 0;
    int m = A & 63;
    for (int i = 0; i < m; i++) {
        s = s * 31 + in[(g + i) % n];
        if (s % 7 == 3)
            break;
    }
    out[g] = s;
}

CASE(diverge)
{
    uint32_t a = A, s = 0;
    if (a & 1) {
        if (a & 2)
            s = a * 3;
        else
            s = a + 5;
        for (uint32_t i = a >> 28; i; i--)
            s ^= s << 3;
    } else if (a & 4)
        s = ~a;
    else
        s = a >> 3;
    out[g] = s;
}

CASE(switches)
{
    switch (A & 7) {
    case 0:
        out[g] = B;
        break;
    case 1:
        out[g] = B + 1;
        break;
    case 2:
        out[g] = B * 3;
        break;
    case 3:
        out[g] = ~B;
        break;
    case 5:
        out[g] = B ^ C;
        break;
    default:
        out[g] = C;
    }
}

CASE(half_math)
{
    _Float16 a = (_Float16)f(A), b = (_Float16)f(B), c = (_Float16)f(C);
    _Float16 r = a * b + c;
    union {
        _Float16 h;
        uint16_t u;
    } v;
    v.h = r;
    union {
        _Float16 h;
        uint16_t u;
    } w;
    w.u = D;
    float y = w.h;
    out[g] = v.u ^ (v.h != v.h ? v.u : 0) ^ (y != y ? 0 : u(y));
}

CASE(half_compare)
{
    union {
        _Float16 h;
        uint16_t u;
    } a, b, c;
    a.u = A;
    b.u = B;
    c.u = C;
    out[g] = (a.h < b.h) | (a.h == c.h) << 1 | (b.h >= c.h) << 2 | (a.h != b.h) << 3;
}

CASE(short_math)
{
    int16_t a = A, b = B, c = C;
    uint16_t d = D;
    int16_t m = a < b ? a : b;
    uint16_t q = (uint16_t)(a * c) + (d >> 3);
    int16_t s = a >> (d & 15);
    out[g] = (uint16_t)m | (uint32_t)(uint16_t)(q ^ s) << 16;
}

CASE(bfloat_round)
{
    uint32_t x = A;
    uint32_t r = (x + 0x7fff + (x >> 16 & 1)) >> 16;
    uint32_t y = B;
    uint32_t r2 = (y + 0x7fff + (y >> 16 & 1)) >> 16;
    out[g] = r | r2 << 16;
}

CASE(double1)
{
    double x = f(A), y = f(B);
    double r = x * y + f(C);
    r = r < 0 ? -r : r;
    union {
        double d;
        uint64_t u;
    } v;
    v.d = r * 1.25;
    out[g] = r != r ? 0 : v.u ^ (v.u >> 32);
}

CASE(double2)
{
    double x = (int32_t)A, y = (int32_t)(B | 1);
    double r = x / y;
    union {
        double d;
        uint64_t u;
    } v;
    v.d = __builtin_floor(r) + __builtin_rint(r * 3) + (x < y) + __builtin_trunc(y / 7);
    float q = (float)r;
    out[g] = v.u ^ (v.u >> 32) ^ u(q) ^ (uint32_t)(int32_t)r;
}

CASE(scale_exp)
{
    float x = f(A);
    if (!(__builtin_fabsf(x) < 1e30f))
        x = 1;
    out[g] = u(__builtin_ldexpf(x, (int)(B & 63) - 32));
}

CASE(fused)
{
    out[g] = u(__builtin_fmaf(f(A), f(B), f(C)));
}

CASE(min_max_float)
{
    float a = f(A), b = f(B);
    if (a != a)
        a = 1;
    if (b != b)
        b = 2;
    if (a == 0)
        a = 3;
    out[g] = u(__builtin_fminf(a, b)) ^ u(__builtin_fmaxf(a, b)) * 3;
}

CASE(four_words)
{
    if (g * 4 + 3 < n) {
        uint32_t GLOBAL *o = out + g * 4;
        const uint32_t GLOBAL *p = in + g * 4;
        uint32_t a = p[0], b = p[1], c = p[2], d = p[3];
        o[0] = d;
        o[1] = c;
        o[2] = b + 1;
        o[3] = a ^ 5;
    }
}

CASE(store_bytes)
{
    uint8_t GLOBAL *o = (uint8_t GLOBAL *)(out + g);
    o[0] = A;
    o[1] = B >> 8;
    o[3] = C >> 4;
    o[2] = (int8_t)(D) >> 1;
}

CASE(store_shorts)
{
    uint16_t GLOBAL *o = (uint16_t GLOBAL *)(out + g);
    const int16_t GLOBAL *p = (const int16_t GLOBAL *)(in + g);
    const int8_t GLOBAL *q = (const int8_t GLOBAL *)(in + g);
    o[1] = p[0] * 3;
    o[0] = p[1] + q[3] * q[1];
}

CASE(clampadd)
{
    uint32_t r;
    r = A + B < A ? ~0u : A + B;
    uint32_t s = C < D ? 0 : C - D;
    out[g] = r ^ s;
}

CASE(absdiff)
{
    int32_t a = (int32_t)A, b = (int32_t)B;
    uint32_t x = a < 0 ? -(uint32_t)a : a;
    out[g] = x + (a > b ? (uint32_t)a - b : (uint32_t)b - a) * 3;
}

CASE(stack)
{
    uint32_t t[16];
    for (int i = 0; i < 16; i++)
        t[i] = in[g] * i + B;
    t[C & 15] ^= D;
    uint32_t s = 0;
    for (int i = 0; i < 16; i++)
        s = s * 3 + t[(i * 7 + (A & 3)) & 15];
    out[g] = s ^ t[B & 15];
}

CASE(array_index)
{
    uint32_t t[8];
    for (int i = 0; i < 8; i++)
        t[i] = in[g] + i * B;
    uint32_t s = 0;
    for (int k = 0; k < n % 5 + 3; k++)
        s += t[(k * 3 + n) & 7] * k;
    out[g] = s;
}

CASE(double_div)
{
    double a = (double)f(A), b = (double)f(B);
    if (!(a * a < 1e300))
        a = 1;
    if (!(b * b < 1e300))
        b = 2;
    double r = a / (b == 0 ? 1 : b);
    double s = __builtin_sqrt(r < 0 ? -r : r);
    union {
        double d;
        uint64_t u;
    } v;
    v.d = s + r;
    out[g] = (uint32_t)(v.u >> 32) ^ (uint32_t)v.u;
}

CASE(compare64)
{
    int64_t a = (int64_t)((uint64_t)A << 32 | B), b = (int64_t)((uint64_t)C << 20 | D);
    int64_t m = a < b ? a : b;
    uint64_t x = (uint64_t)(a * b) >> 7;
    out[g] = (uint32_t)(m >> 9) ^ (uint32_t)x ^ (uint32_t)(x >> 32) ^ (a > b) * 5;
}

CASE(float_int64)
{
    float x = f(A);
    x = (x > -1e15f && x < 1e15f) ? x : 3;
    int64_t i = (int64_t)x;
    uint64_t k = x > 0 ? (uint64_t)x : 0;
    float y = (float)(int64_t)((uint64_t)B << 13 | C);
    float z = (float)((uint64_t)D << 31 | A);
    out[g] = (uint32_t)i ^ (uint32_t)(i >> 32) ^ (uint32_t)k ^ u(y) ^ u(z);
}

CASE(table)
{
    static const uint8_t t[64] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4, 6, 2,
                                  6, 4, 3, 3, 8, 3, 2, 7, 9, 5, 0, 2, 8, 8, 4, 1, 9, 7, 1, 6, 9, 3,
                                  9, 9, 3, 7, 5, 1, 0, 5, 8, 2, 0, 9, 7, 4, 9, 4, 4, 5, 9, 2};
    out[g] = t[A & 63] + t[B >> 26] * 256;
}

CASE(nested)
{
    uint32_t s = 0;
    for (uint32_t i = 0; i < (A & 15); i++) {
        for (uint32_t j = 0; j < (B & 7); j++) {
            if (((i ^ j) & 3) == (C & 3))
                continue;
            s += i * j + 1;
            if (s > (D & 63))
                break;
        }
        if ((s & 31) == 17)
            break;
    }
    out[g] = s;
}

CASE(rotates)
{
    uint32_t r = (A << 13 | A >> 19) ^ (B << (C & 31) | B >> ((32 - (C & 31)) & 31));
    uint64_t q = (uint64_t)A << 32 | B;
    q = q << 21 | q >> 43;
    out[g] = r ^ (uint32_t)q ^ (uint32_t)(q >> 32);
}

CASE(byte_swap)
{
    uint64_t q = (uint64_t)A << 32 | B;
    q = __builtin_bswap64(q);
    uint16_t h = __builtin_bswap16((uint16_t)C);
    out[g] = (uint32_t)q ^ (uint32_t)(q >> 32) * 3 ^ h ^ reversed(D);
}

CASE(unaligned)
{
    const uint8_t GLOBAL *p = (const uint8_t GLOBAL *)(in + g) + 1;
    uint32_t v;
    __builtin_memcpy(&v, (const void *)p, 4);
    uint64_t w;
    __builtin_memcpy(&w, (const void *)(p + 2), 8);
    out[g] = v ^ (uint32_t)w ^ (uint32_t)(w >> 32);
}

CASE(bfloat_mul)
{
    uint32_t a = A & 0xffff0000, b = B << 16;
    float x = f(a) * f(b);
    uint32_t y = u(x);
    y = (y & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : (y + 0x7fff + (y >> 16 & 1)) >> 16;
    out[g] = y;
}

CASE(mul128)
{
    unsigned __int128 a =
        ((unsigned __int128)A << 96) | ((unsigned __int128)B << 64) | ((uint64_t)C << 32) | D;
    unsigned __int128 b = a * ((uint64_t)B << 32 | A) + C;
    out[g] = (uint32_t)(b >> 96) ^ (uint32_t)(b >> 64) ^ (uint32_t)(b >> 32) ^ (uint32_t)b;
}

CASE(split_exp)
{
    float x = f(A);
    if (!(x > -80 && x < 80))
        x = 1.5f;
    int e;
    float m = __builtin_frexpf(x, &e);
    out[g] = u(m) ^ (uint32_t)e;
}

CASE(classify)
{
    float x = f(A);
    out[g] = (__builtin_isnan(x) ? 1 : 0) | (__builtin_isinf(x) ? 2 : 0) |
             (__builtin_isfinite(x) ? 4 : 0) | (__builtin_signbit(x) ? 8 : 0) |
             ((__builtin_fabsf(x) < 1.17549435e-38f) ? 16 : 0) |
             (u(__builtin_copysignf(f(B), x)) & 0x80000000);
}

CASE(packed_floats)
{
    float a = f(A), b = f(B), c = f(C), d = f(D);
    float r = a * c + c, q = b * d + d;
    out[g] = u(r * 2) ^ u(q * -3);
}

CASE(packed_halves)
{
    _Float16 a = h(A & 0x3fff), b = h(A >> 16 & 0x3fff), c = h(B & 0xbfff), d = h(B >> 16 & 0xbfff);
    _Float16 r = a * c, q = b * d;
    r = r + a;
    q = q + b;
    r = r - c;
    q = q - d;
    out[g] = half_bits(r) | half_bits(q) << 16;
}

CASE(vector_index)
{
    uint32_t v[4] = {A, B, C, D}, w[4] = {A * 3, B * 3, C * 3, D * 3};
    uint32_t r = v[(A >> 3) & 3] ^ w[B & 3];
    w[C & 3] = 7;
    out[g] = r + w[0] + w[1] * 2 + w[2] * 3 + w[3] * 5;
}

CASE(calls)
{
    uint32_t r = callee(A, B);
    out[g] = r ^ callee(C, r);
}

CASE(recursion)
{
    out[g] = fib(A & 7);
}
