/* JSON that is not decoded: whether it is valid, and the content of its strings. */
#include "json_input.h"

/* Lower than the depth that a payload may have. */
enum { PLAIN_DEPTH_MAX = 100 };

/* Skip a string, behind its opening quote, and append its content to `to`, if that is given. */
static bool pass_text(Input *in, Buffer *to) {
    for (;;) {
        bool is_ascii;
        const byte *start = in->at;
        in->at = json_plain_run(start, in->end, &is_ascii);
        if (in->at >= in->end || (to && !buffer_put(to, start, (size_t)(in->at - start)))) return false;
        byte one = *in->at++;
        if (one == '"') return true;
        char meant[4], *stop = meant;
        if (one != '\\' || !json_take_escape(in, &stop)) return false;
        if (to && !buffer_put(to, meant, (size_t)(stop - meant))) return false;
    }
}

const byte *json_take_text(const byte *text, const byte *end, Buffer *to) {
    Input in = {text, end, 0};
    return text < end && *in.at++ == '"' && pass_text(&in, to) ? in.at : NULL;
}

/* Skip a number; false if it may be invalid or out of range. */
static bool pass_number(Input *in) {
    uint64_t unused = 0;
    bool is_negative = *in->at == '-';
    in->at += is_negative;
    const byte *first = in->at;
    int whole = take_digits(in, &unused, 0);
    if (!whole || whole > DIGITS_MAX || (*first == '0' && (whole > 1 || is_negative))) return false;
    if (in->at < in->end && *in->at == '.') {
        in->at++;
        if (!take_digits(in, &unused, 0)) return false;
    }
    if (in->at >= in->end || (*in->at != 'e' && *in->at != 'E')) return true;
    in->at++;
    if (in->at < in->end && (*in->at == '+' || *in->at == '-')) in->at++;
    int digits = take_digits(in, &unused, 0);
    return digits == 1 || digits == 2;
}

static bool pass_value(Input *in);

/* Skip the rest of an object or array, behind its opening bracket. */
static bool pass_container(Input *in, bool is_object) {
    char closing = is_object ? '}' : ']';
    if (in->depth >= PLAIN_DEPTH_MAX) return false;
    if (take_mark(in, closing)) return true;
    in->depth++;
    do {
        if (is_object && !(take_mark(in, '"') && pass_text(in, NULL) && take_mark(in, ':'))) return false;
        if (!pass_value(in)) return false;
        if (take_mark(in, closing)) {
            in->depth--;
            return true;
        }
    } while (take_mark(in, ','));
    return false;
}

static bool pass_value(Input *in) {
    skip_space(in);
    if (in->at >= in->end) return false;
    switch (*in->at) {
    case '"': in->at++; return pass_text(in, NULL);
    case '{': in->at++; return pass_container(in, true);
    case '[': in->at++; return pass_container(in, false);
    case 't': return take_word(in, "true");
    case 'f': return take_word(in, "false");
    case 'n': return take_word(in, "null");
    default: return pass_number(in);
    }
}

bool json_is_plain(const byte *text, size_t length) {
    Input in = {text, text + length, 0};
    if (!pass_value(&in)) return false;
    skip_space(&in);
    return in.at == in.end;
}
