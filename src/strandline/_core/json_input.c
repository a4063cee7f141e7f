/* What the readers of JSON share: the position in a text, and its tokens. */
#include "json_input.h"
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

static int hex_value(byte digit) {
    if (digit >= '0' && digit <= '9') return digit - '0';
    byte lower = digit | 0x20;
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* Take four hexadecimal digits; false also for surrogates, which are left to Python. */
static bool take_code(Input *in, uint32_t *code) {
    *code = 0;
    if (in->end - in->at < 4) return false;
    for (int index = 0; index < 4; index++) {
        int value = hex_value(*in->at++);
        if (value < 0) return false;
        *code = *code << 4 | (uint32_t)value;
    }
    return *code < 0xd800 || *code >= 0xe000;
}

static char *put_utf8(char *to, uint32_t code) {
    if (code < 0x80) {
        *to++ = (char)code;
    } else if (code < 0x800) {
        *to++ = (char)(0xc0 | code >> 6);
        *to++ = (char)(0x80 | (code & 63));
    } else {
        *to++ = (char)(0xe0 | code >> 12);
        *to++ = (char)(0x80 | (code >> 6 & 63));
        *to++ = (char)(0x80 | (code & 63));
    }
    return to;
}

bool json_take_escape(Input *in, char **to) {
    static const char meant[128] = {['"'] = '"', ['\\'] = '\\', ['/'] = '/', ['b'] = '\b',
                                    ['f'] = '\f', ['n'] = '\n', ['r'] = '\r', ['t'] = '\t'};
    if (in->at >= in->end) return false;
    byte letter = *in->at++;
    if (letter < 128 && meant[letter]) {
        *(*to)++ = meant[letter];
        return true;
    }
    uint32_t code;
    if (letter != 'u' || !take_code(in, &code)) return false;
    *to = put_utf8(*to, code);
    return true;
}

const byte *json_plain_run(const byte *at, const byte *end, bool *is_ascii) {
    byte seen = 0;
#if defined(__SSE2__)
    const __m128i control = _mm_set1_epi8(0x1f), quote = _mm_set1_epi8('"'),
                  backslash = _mm_set1_epi8('\\');
    for (; end - at >= 16; at += 16) {
        __m128i sixteen = _mm_loadu_si128((const __m128i *)at);
        __m128i is_control = _mm_cmpeq_epi8(_mm_min_epu8(sixteen, control), sixteen);
        __m128i is_other = _mm_or_si128(
            _mm_cmpeq_epi8(sixteen, quote), _mm_cmpeq_epi8(sixteen, backslash));
        int ends = _mm_movemask_epi8(_mm_or_si128(is_control, is_other));
        int beyond = _mm_movemask_epi8(sixteen);
        if (ends) {
            int run = __builtin_ctz((unsigned)ends);
            *is_ascii = !seen && !(beyond & ((1 << run) - 1));
            return at + run;
        }
        if (beyond) seen = 0x80;
    }
#endif
    for (; at < end && *at >= 0x20 && *at != '"' && *at != '\\'; at++) seen |= *at;
    *is_ascii = seen < 0x80;
    return at;
}
