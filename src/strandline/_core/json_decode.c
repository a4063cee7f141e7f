/* JSON in: the same values as msgspec decodes, or nothing.
 *
 * Each function returns NULL for what it does not know, with or without an exception:
 * `json_decode` clears it, Python decodes the text again and raises what is wrong.
 */
#include "core.h"
#include <math.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

enum { DEPTH_MAX = 200, NAMES = 2048, NAME_BYTES_MAX = 32, DIGITS_MAX = 18, NUMBER_BYTES_MAX = 63 };
/* Less than any payload may have. */
enum { PLAIN_DEPTH_MAX = 100 };

typedef struct {
    const byte *at, *end;
    int depth;
} Input;

/* --- text --- */

/* Short texts that were met before: the names in objects, and kinds. */
static struct {
    PyObject *text;
    uint32_t hash;
    byte length;
    char content[NAME_BYTES_MAX];
} names[NAMES];

static PyObject *short_text(const byte *text, size_t length) {
    uint32_t hash = 2166136261u ^ (uint32_t)length;
    for (size_t index = 0; index < length; index++) hash = (hash ^ text[index]) * 16777619u;
    size_t slot = (hash ^ hash >> 15) % NAMES;
    if (names[slot].text && names[slot].hash == hash && names[slot].length == length
        && !memcmp(names[slot].content, text, length))
        return new_reference(names[slot].text);
    PyObject *made = PyUnicode_DecodeASCII((const char *)text, (Py_ssize_t)length, NULL);
    if (!made) return NULL;
    PyObject *replaced = names[slot].text;
    names[slot].text = new_reference(made);
    names[slot].hash = hash;
    names[slot].length = (byte)length;
    memcpy(names[slot].content, text, length);
    Py_XDECREF(replaced);
    return made;
}

PyObject *text_of_ascii(const byte *text, size_t length) {
    if (length <= NAME_BYTES_MAX) return short_text(text, length);
    return PyUnicode_DecodeASCII((const char *)text, (Py_ssize_t)length, NULL);
}

static int hex_value(byte digit) {
    if (digit >= '0' && digit <= '9') return digit - '0';
    byte lower = digit | 0x20;
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* Take four hexadecimal digits; false also for halves of pairs, which are Python's. */
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

static bool take_escape(Input *in, char **to) {
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

/* Take a text that has escapes, from its beginning on. */
static PyObject *take_escaped_text(Input *in) {
    char *content = malloc((size_t)(in->end - in->at) + 1), *to = content;
    PyObject *made = NULL;
    if (!content) return NULL;
    while (in->at < in->end && *in->at != '"') {
        byte one = *in->at++;
        if (one < 0x20) goto done;
        if (one != '\\') *to++ = (char)one;
        else if (!take_escape(in, &to)) goto done;
    }
    if (in->at < in->end) {
        in->at++;
        made = PyUnicode_DecodeUTF8(content, to - content, NULL);
    }
done:
    free(content);
    return made;
}

/* Return the first byte that ends a run of plain characters; whether all were ASCII. */
static const byte *plain_run(const byte *at, const byte *end, bool *is_ascii) {
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

/* Take a text, behind its opening quote. */
static PyObject *take_text(Input *in, bool is_name) {
    bool is_ascii;
    const byte *start = in->at, *stop = plain_run(start, in->end, &is_ascii);
    if (stop >= in->end) return NULL;
    if (*stop == '\\') return take_escaped_text(in);
    if (*stop != '"') return NULL;
    size_t length = (size_t)(stop - start);
    in->at = stop + 1;
    if (!is_ascii) return PyUnicode_DecodeUTF8((const char *)start, (Py_ssize_t)length, NULL);
    if (is_name) return text_of_ascii(start, length);
    return PyUnicode_DecodeASCII((const char *)start, (Py_ssize_t)length, NULL);
}

/* --- numbers --- */

static bool is_digit(const Input *in) { return in->at < in->end && *in->at >= '0' && *in->at <= '9'; }

/* Take digits into `number`, which stays right up to DIGITS_MAX of them in all. */
static int take_digits(Input *in, uint64_t *number, int before) {
    int count = 0;
    for (; is_digit(in); in->at++, count++)
        if (before + count < DIGITS_MAX) *number = *number * 10 + (*in->at - '0');
    return count;
}

static PyObject *float_of(const byte *start, const byte *stop) {
    char text[NUMBER_BYTES_MAX + 1];
    if (stop - start > NUMBER_BYTES_MAX) return NULL;
    memcpy(text, start, (size_t)(stop - start));
    text[stop - start] = 0;
    double value = PyOS_string_to_double(text, NULL, NULL);
    if (PyErr_Occurred() || !isfinite(value)) return NULL;
    return PyFloat_FromDouble(value);
}

static PyObject *take_number(Input *in) {
    static const double powers[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18};
    const byte *start = in->at;
    bool is_negative = *in->at == '-', has_exponent = false;
    in->at += is_negative;
    const byte *first = in->at;
    uint64_t number = 0;
    int whole = take_digits(in, &number, 0), decimals = 0;
    if (!whole || whole > DIGITS_MAX || (whole > 1 && *first == '0')) return NULL;
    bool is_whole = in->at >= in->end || (*in->at != '.' && *in->at != 'e' && *in->at != 'E');
    if (is_whole) {
        if (is_negative && !number) return NULL;
        return PyLong_FromLongLong(is_negative ? -(long long)number : (long long)number);
    }
    if (*in->at == '.') {
        in->at++;
        decimals = take_digits(in, &number, whole);
        if (!decimals) return NULL;
    }
    if (in->at < in->end && (*in->at == 'e' || *in->at == 'E')) {
        has_exponent = true;
        in->at++;
        if (in->at < in->end && (*in->at == '+' || *in->at == '-')) in->at++;
        uint64_t unused = 0;
        if (!take_digits(in, &unused, 0)) return NULL;
    }
    /* Both are exact, and so the quotient is the nearest. */
    if (!has_exponent && whole + decimals <= DIGITS_MAX && number < 1ull << 53) {
        double value = (double)number / powers[decimals];
        return PyFloat_FromDouble(is_negative ? -value : value);
    }
    return float_of(start, in->at);
}

/* --- values --- */

static PyObject *take_value(Input *in);

static void skip_space(Input *in) {
    while (in->at < in->end
           && (*in->at == ' ' || *in->at == '\n' || *in->at == '\t' || *in->at == '\r'))
        in->at++;
}

/* Skip space, and take `wanted` if it comes next. */
static bool take_mark(Input *in, char wanted) {
    skip_space(in);
    if (in->at >= in->end || *in->at != (byte)wanted) return false;
    in->at++;
    return true;
}

static bool take_member(Input *in, PyObject *object) {
    PyObject *name = take_mark(in, '"') ? take_text(in, true) : NULL;
    PyObject *value = name && take_mark(in, ':') ? take_value(in) : NULL;
    bool is_set = value && PyDict_SetItem(object, name, value) == 0;
    Py_XDECREF(name);
    Py_XDECREF(value);
    return is_set;
}

static bool take_item(Input *in, PyObject *list) {
    PyObject *value = take_value(in);
    bool is_set = value && PyList_Append(list, value) == 0;
    Py_XDECREF(value);
    return is_set;
}

/* Take the rest of an object or array, behind its opening bracket. */
static PyObject *take_container(Input *in, bool is_object) {
    char closing = is_object ? '}' : ']';
    if (in->depth >= DEPTH_MAX) return NULL;
    PyObject *made = is_object ? PyDict_New() : PyList_New(0);
    if (!made || take_mark(in, closing)) return made;
    in->depth++;
    do {
        if (!(is_object ? take_member(in, made) : take_item(in, made))) break;
        if (take_mark(in, closing)) {
            in->depth--;
            return made;
        }
    } while (take_mark(in, ','));
    Py_DECREF(made);
    return NULL;
}

static PyObject *take_word(Input *in, const char *word, PyObject *value) {
    size_t length = strlen(word);
    if ((size_t)(in->end - in->at) < length || memcmp(in->at, word, length)) return NULL;
    in->at += length;
    return new_reference(value);
}

static PyObject *take_value(Input *in) {
    skip_space(in);
    if (in->at >= in->end) return NULL;
    switch (*in->at) {
    case '"': in->at++; return take_text(in, false);
    case '{': in->at++; return take_container(in, true);
    case '[': in->at++; return take_container(in, false);
    case 't': return take_word(in, "true", Py_True);
    case 'f': return take_word(in, "false", Py_False);
    case 'n': return take_word(in, "null", Py_None);
    default: return take_number(in);
    }
}

PyObject *json_decode(const char *text, size_t length) {
    Input in = {(const byte *)text, (const byte *)text + length, 0};
    PyObject *made = take_value(&in);
    skip_space(&in);
    if (made && in.at == in.end) return made;
    Py_XDECREF(made);
    PyErr_Clear();
    return NULL;
}

/* --- whether it is JSON --- */

static bool add(Buffer *to, const void *content, size_t length) {
    if (!to) return true;
    if (!buffer_reserve(to, length)) return false;
    memcpy(to->bytes + to->length, content, length);
    to->length += length;
    return true;
}

/* Pass over a text, behind its opening quote, and add what it says to `to`, if that is given. */
static bool pass_text(Input *in, Buffer *to) {
    for (;;) {
        bool is_ascii;
        const byte *start = in->at;
        in->at = plain_run(start, in->end, &is_ascii);
        if (in->at >= in->end || !add(to, start, (size_t)(in->at - start))) return false;
        byte one = *in->at++;
        if (one == '"') return true;
        char meant[4], *stop = meant;
        if (one != '\\' || !take_escape(in, &stop)) return false;
        if (!add(to, meant, (size_t)(stop - meant))) return false;
    }
}

const byte *json_take_text(const byte *text, const byte *end, Buffer *to) {
    Input in = {text, end, 0};
    return text < end && *in.at++ == '"' && pass_text(&in, to) ? in.at : NULL;
}

/* Pass over a number that surely is one and not too large, whatever comes after its point. */
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

static bool pass_word(Input *in, const char *word) {
    size_t length = strlen(word);
    if ((size_t)(in->end - in->at) < length || memcmp(in->at, word, length)) return false;
    in->at += length;
    return true;
}

static bool pass_value(Input *in);

/* Pass over the rest of an object or array, behind its opening bracket. */
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
    case 't': return pass_word(in, "true");
    case 'f': return pass_word(in, "false");
    case 'n': return pass_word(in, "null");
    default: return pass_number(in);
    }
}

bool json_is_plain(const byte *text, size_t length) {
    Input in = {text, text + length, 0};
    if (!pass_value(&in)) return false;
    skip_space(&in);
    return in.at == in.end;
}
