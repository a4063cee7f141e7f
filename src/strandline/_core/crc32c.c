/* CRC-32C (Castagnoli), by the instruction of the processor if there is one. */
#include "core.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <nmmintrin.h>
#endif

enum { POLYNOMIAL_BITS = 8 };
static const uint32_t POLYNOMIAL = 0x82f63b78u;

/* tables[k][b]: what byte b, followed by k zeros, does to the checksum. */
static uint32_t tables[8][256];

#if defined(__x86_64__)
/* The instruction has a latency of three cycles: three parts of a block are computed at once, and
 * combined with tables of what zeros do to a checksum. */
enum { LONG_LANE = 2048, SHORT_LANE = 256 };
typedef uint32_t Zeros[4][256];
static Zeros long_zeros, short_zeros;
static bool has_instruction;

static uint32_t times(const uint32_t *matrix, uint32_t vector) {
    uint32_t sum = 0;
    for (; vector; vector >>= 1, matrix++)
        if (vector & 1) sum ^= *matrix;
    return sum;
}

static void square(uint32_t *squared, const uint32_t *matrix) {
    for (int bit = 0; bit < 32; bit++) squared[bit] = times(matrix, matrix[bit]);
}

/* Compute what `length` zeros do to a checksum; `length` is a power of two. */
static void prepare_zeros(Zeros zeros, size_t length) {
    uint32_t one[32], other[32], *power = one, *next = other;
    one[0] = POLYNOMIAL;
    for (int bit = 1; bit < 32; bit++) one[bit] = 1u << (bit - 1);
    /* The matrix for one bit; each squaring doubles the length. */
    for (size_t bits = 1; bits < 8 * length; bits *= 2) {
        square(next, power);
        uint32_t *swapped = power;
        power = next;
        next = swapped;
    }
    for (uint32_t value = 0; value < 256; value++)
        for (int place = 0; place < 4; place++)
            zeros[place][value] = times(power, value << (8 * place));
}

static inline uint32_t shifted(Zeros zeros, uint32_t crc) {
    return zeros[0][crc & 0xff] ^ zeros[1][(crc >> 8) & 0xff] ^ zeros[2][(crc >> 16) & 0xff]
        ^ zeros[3][crc >> 24];
}

__attribute__((target("sse4.2"))) static inline const byte *
three_lanes(uint64_t *crc, const byte *at, size_t lane, Zeros zeros) {
    uint64_t first = *crc, second = 0, third = 0;
    for (const byte *end = at + lane; at < end; at += 8) {
        first = _mm_crc32_u64(first, read_u64(at));
        second = _mm_crc32_u64(second, read_u64(at + lane));
        third = _mm_crc32_u64(third, read_u64(at + 2 * lane));
    }
    uint32_t joined = shifted(zeros, (uint32_t)first) ^ (uint32_t)second;
    *crc = shifted(zeros, joined) ^ (uint32_t)third;
    return at + 2 * lane;
}

__attribute__((target("sse4.2"))) static uint32_t
by_instruction(uint32_t seed, const byte *at, size_t length) {
    uint64_t crc = seed;
    for (; length >= 3 * LONG_LANE; length -= 3 * LONG_LANE)
        at = three_lanes(&crc, at, LONG_LANE, long_zeros);
    for (; length >= 3 * SHORT_LANE; length -= 3 * SHORT_LANE)
        at = three_lanes(&crc, at, SHORT_LANE, short_zeros);
    for (; length >= 8; length -= 8, at += 8) crc = _mm_crc32_u64(crc, read_u64(at));
    for (; length; length--) crc = _mm_crc32_u8((uint32_t)crc, *at++);
    return (uint32_t)crc;
}
#endif

void crc32c_prepare(void) {
    for (uint32_t value = 0; value < 256; value++) {
        uint32_t crc = value;
        for (int bit = 0; bit < POLYNOMIAL_BITS; bit++)
            crc = crc & 1 ? (crc >> 1) ^ POLYNOMIAL : crc >> 1;
        tables[0][value] = crc;
    }
    for (uint32_t value = 0; value < 256; value++)
        for (int k = 1; k < 8; k++) {
            uint32_t before = tables[k - 1][value];
            tables[k][value] = tables[0][before & 0xff] ^ (before >> 8);
        }
#if defined(__x86_64__)
    unsigned a, b, c = 0, d;
    has_instruction = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSE4_2);
    prepare_zeros(long_zeros, LONG_LANE);
    prepare_zeros(short_zeros, SHORT_LANE);
#endif
}

static uint32_t by_table(uint32_t crc, const byte *at, size_t length) {
    for (; length >= 8; length -= 8, at += 8) {
        uint64_t eight = read_u64(at) ^ crc;
        crc = 0;
        for (int place = 0; place < 8; place++)
            crc ^= tables[7 - place][(eight >> (8 * place)) & 0xff];
    }
    for (; length; length--) crc = tables[0][(crc ^ *at++) & 0xff] ^ (crc >> 8);
    return crc;
}

uint32_t crc32c(uint32_t seed, const void *data, size_t length) {
#if defined(__x86_64__)
    if (LIKELY(has_instruction)) return ~by_instruction(~seed, data, length);
#endif
    return ~by_table(~seed, data, length);
}
