/* Whether bytes are UTF-8: nothing truncated, overlong or too large, and no surrogate. */
#include "core.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

/* How long the character is that begins at `at`; 0 if none does. */
static size_t character_length(const byte *at, size_t left) {
    byte first = at[0];
    if (first < 0x80) return 1;
    size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first > 0xf4 || length > left) return 0;
    for (size_t index = 1; index < length; index++)
        if (!is_continuation(at[index])) return 0;
    bool is_overlong = (first == 0xe0 && at[1] < 0xa0) || (first == 0xf0 && at[1] < 0x90);
    bool is_surrogate = first == 0xed && at[1] >= 0xa0;
    bool is_too_large = first == 0xf4 && at[1] >= 0x90;
    return is_overlong || is_surrogate || is_too_large ? 0 : length;
}

static bool by_character(const byte *text, size_t length) {
    while (length) {
        if (length >= 8 && !(read_u64(text) & 0x8080808080808080u)) {
            text += 8;
            length -= 8;
            continue;
        }
        size_t step = character_length(text, length);
        if (!step) return false;
        text += step;
        length -= step;
    }
    return true;
}

#if defined(__x86_64__)
/* Thirty-two bytes at a time, without branches, which would be mispredicted at each of a few
 * scattered characters beyond ASCII.
 *
 * The errors of two consecutive bytes follow from both halves of the first and the upper half of
 * the second. Each of the three has a table of the errors that it permits; what all three permit
 * is an error. Two consecutive continuation bytes are an error only if no character of three or
 * four bytes began before. */
enum { BLOCK = 32, LONG_BYTES = 4 * BLOCK };
enum {
    TOO_SHORT = 1,      /* No continuation after a byte that begins a character. */
    TOO_LONG = 2,      /* A continuation after ASCII. */
    OVERLONG_3 = 4,  /* e0 80 to e0 9f */
    TOO_LARGE = 8,         /* f4 90 and above */
    SURROGATE = 16,  /* ed a0 and above */
    OVERLONG_2 = 32,   /* c0 and c1 */
    OVERLONG_4 = 64,    /* f0 80 to f0 8f; and f5 80 and above, which are too large */
    CONTINUED = 128,    /* A continuation after another. */
    ANY = TOO_SHORT | TOO_LONG | CONTINUED
};
#define FOUR(what) (char)(what), (char)(what), (char)(what), (char)(what)
/* By the upper half of the first byte, by its lower half, by the upper half of the second. */
static const char first_upper[16] = {
    FOUR(TOO_LONG), FOUR(TOO_LONG), FOUR(CONTINUED), TOO_SHORT | OVERLONG_2, TOO_SHORT,
    TOO_SHORT | OVERLONG_3 | SURROGATE, TOO_SHORT | TOO_LARGE | OVERLONG_4};
static const char first_lower[16] = {
    (char)(ANY | OVERLONG_2 | OVERLONG_3 | OVERLONG_4), (char)(ANY | OVERLONG_2),
    (char)ANY, (char)ANY, (char)(ANY | TOO_LARGE), (char)(ANY | TOO_LARGE | OVERLONG_4),
    (char)(ANY | TOO_LARGE | OVERLONG_4), (char)(ANY | TOO_LARGE | OVERLONG_4),
    FOUR(ANY | TOO_LARGE | OVERLONG_4), (char)(ANY | TOO_LARGE | OVERLONG_4),
    (char)(ANY | TOO_LARGE | OVERLONG_4 | SURROGATE), (char)(ANY | TOO_LARGE | OVERLONG_4),
    (char)(ANY | TOO_LARGE | OVERLONG_4)};
static const char second_upper[16] = {
    FOUR(TOO_SHORT), FOUR(TOO_SHORT),
    (char)(TOO_LONG | OVERLONG_2 | CONTINUED | OVERLONG_3 | OVERLONG_4),
    (char)(TOO_LONG | OVERLONG_2 | CONTINUED | OVERLONG_3 | TOO_LARGE),
    (char)(TOO_LONG | OVERLONG_2 | CONTINUED | SURROGATE | TOO_LARGE),
    (char)(TOO_LONG | OVERLONG_2 | CONTINUED | SURROGATE | TOO_LARGE), FOUR(TOO_SHORT)};
#undef FOUR

__attribute__((target("avx2"))) static inline __m256i table_of(const char *table) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)table));
}

__attribute__((target("avx2"))) static inline __m256i bytes_at(const byte *at) {
    return _mm256_loadu_si256((const __m256i *)(const void *)at);
}

/* Check the blocks from `at` on, before which there are three bytes; return the end of the last
 * one, or NULL if something is wrong. A character may continue behind it. */
__attribute__((target("avx2"))) static const byte *by_block(const byte *at, const byte *end) {
    const __m256i by_first_upper = table_of(first_upper), by_first_lower = table_of(first_lower),
                  by_second_upper = table_of(second_upper), half = _mm256_set1_epi8(15),
                  third = _mm256_set1_epi8((char)(0xe0 - 0x80)),
                  fourth = _mm256_set1_epi8((char)(0xf0 - 0x80)),
                  high = _mm256_set1_epi8((char)0x80);
    __m256i wrong = _mm256_setzero_si256();
    for (; end - at >= BLOCK; at += BLOCK) {
        __m256i second = bytes_at(at), first = bytes_at(at - 1);
        __m256i upper = _mm256_and_si256(_mm256_srli_epi16(first, 4), half);
        __m256i next_upper = _mm256_and_si256(_mm256_srli_epi16(second, 4), half);
        __m256i pair = _mm256_and_si256(
            _mm256_and_si256(_mm256_shuffle_epi8(by_first_upper, upper),
                             _mm256_shuffle_epi8(by_first_lower, _mm256_and_si256(first, half))),
            _mm256_shuffle_epi8(by_second_upper, next_upper));
        /* The high bit, which is CONTINUED, where a third or fourth byte is due. */
        __m256i due = _mm256_or_si256(_mm256_subs_epu8(bytes_at(at - 2), third),
                                      _mm256_subs_epu8(bytes_at(at - 3), fourth));
        wrong = _mm256_or_si256(wrong, _mm256_xor_si256(pair, _mm256_and_si256(due, high)));
    }
    return _mm256_testz_si256(wrong, wrong) ? at : NULL;
}

/* Whether the processor has these instructions, and the system saves their registers. */
static bool has_blocks;

static bool keeps_registers(void) {
    const uint32_t both = 6; /* Of 128 and of 256 bits. */
    uint32_t low, unused;
    __asm__("xgetbv" : "=a"(low), "=d"(unused) : "c"(0));
    return (low & both) == both;
}

static bool is_long_utf8(const byte *text, size_t length) {
    const byte *at = text, *end = text + length;
    while (at - text < 3) {
        size_t step = character_length(at, (size_t)(end - at));
        if (!step) return false;
        at += step;
    }
    at = by_block(at, end);
    if (!at) return false;
    /* Back to the beginning of the last character: it may continue behind the last block. */
    do at--;
    while (is_continuation(*at));
    return by_character(at, (size_t)(end - at));
}
#endif

void utf8_prepare(void) {
#if defined(__x86_64__)
    unsigned a, b = 0, c = 0, d;
    has_blocks = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_OSXSAVE) && keeps_registers()
        && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_AVX2);
#endif
}

bool is_utf8(const byte *text, size_t length) {
#if defined(__x86_64__)
    if (length >= LONG_BYTES && has_blocks) return is_long_utf8(text, length);
#endif
    return by_character(text, length);
}
