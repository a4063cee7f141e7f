/* What the readers of JSON share: the position in a text, and its tokens. */
#ifndef STRANDLINE_JSON_INPUT_H
#define STRANDLINE_JSON_INPUT_H

#include "core.h"

/* Numbers with more digits are left to Python. */
enum { DIGITS_MAX = 18 };

typedef struct {
    const byte *at, *end;
    int depth;
} Input;

/* Return the first byte that ends a run of plain characters; whether all were ASCII. */
const byte *json_plain_run(const byte *at, const byte *end, bool *is_ascii);
/* Take the escape behind a backslash, at most five bytes, and write its character, at most three;
 * false also for surrogates, which are left to Python. */
bool json_take_escape(Input *in, char **to);

static inline bool is_digit(const Input *in) { return in->at < in->end && *in->at >= '0' && *in->at <= '9'; }

/* Append digits to `number`, which is exact up to DIGITS_MAX of them in all. */
static inline int take_digits(Input *in, uint64_t *number, int before) {
    int count = 0;
    for (; is_digit(in); in->at++, count++)
        if (before + count < DIGITS_MAX) *number = *number * 10 + (*in->at - '0');
    return count;
}

static inline void skip_space(Input *in) {
    while (in->at < in->end
           && (*in->at == ' ' || *in->at == '\n' || *in->at == '\t' || *in->at == '\r'))
        in->at++;
}

/* Skip space, and take `wanted` if it comes next. */
static inline bool take_mark(Input *in, char wanted) {
    skip_space(in);
    if (in->at >= in->end || *in->at != (byte)wanted) return false;
    in->at++;
    return true;
}

static inline bool take_word(Input *in, const char *word) {
    size_t length = strlen(word);
    if ((size_t)(in->end - in->at) < length || memcmp(in->at, word, length)) return false;
    in->at += length;
    return true;
}
#endif
