/* Encodes JSON to the same bytes as `encode_exact` and `encode_sorted`, or leaves it to Python.
 *
 * Reads exact dicts, lists, texts, numbers, True, False and None. No Python code runs
 * meanwhile, so that nothing read can change.
 */
#include "core.h"
#include <math.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

enum {
    DEPTH_MAX = 128,
    HEADERS_MAX = 8,
    /* Longer texts are left to Python: room is reserved as if every byte were escaped. */
    TEXT_BYTES_MAX = 1 << 20,
    NUMBER_BYTES = 40
};

/* --- text --- */

char *json_put_escape(char *to, byte one) {
    static const char digits[] = "0123456789abcdef";
    static const char short_for[0x20] = {
        ['\b'] = 'b', ['\f'] = 'f', ['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't'};
    *to++ = '\\';
    if (one == '"' || one == '\\') *to++ = (char)one;
    else if (short_for[one]) *to++ = short_for[one];
    else {
        memcpy(to, "u00", 3);
        to[3] = digits[one >> 4];
        to[4] = digits[one & 15];
        to += 5;
    }
    return to;
}

/* Write a byte that is not copied as it is: escaped, or as a character of two bytes. */
static char *put_other(char *to, byte one) {
    if (one < 0x80) return json_put_escape(to, one);
    to[0] = (char)(0xc0 | one >> 6);
    to[1] = (char)(0x80 | (one & 0x3f));
    return to + 2;
}

static inline bool is_other(byte one, bool is_latin) {
    return json_is_escaped(one) || (is_latin && one >= 0x80);
}

#if defined(__SSE2__)
/* Which of sixteen bytes are not copied as they are, a bit each. */
ALWAYS_INLINE unsigned others_of(__m128i sixteen, bool is_latin) {
    const __m128i control = _mm_set1_epi8(0x1f), quote = _mm_set1_epi8('"'),
                  backslash = _mm_set1_epi8('\\');
    __m128i others = _mm_or_si128(
        _mm_cmpeq_epi8(_mm_min_epu8(sixteen, control), sixteen),
        _mm_or_si128(_mm_cmpeq_epi8(sixteen, quote), _mm_cmpeq_epi8(sixteen, backslash)));
    /* The highest bit of each byte is what counts. */
    return (unsigned)_mm_movemask_epi8(is_latin ? _mm_or_si128(others, sixteen) : others);
}

/* Whether any of sixteen bytes is not copied as it is. */
ALWAYS_INLINE bool has_other(uint64_t eight, uint64_t more, bool is_latin) {
    return others_of(_mm_set_epi64x((int64_t)more, (int64_t)eight), is_latin);
}
#else
static inline bool eight_have_other(uint64_t eight, bool is_latin) {
    const uint64_t ones = 0x0101010101010101u, highs = 0x8080808080808080u;
    uint64_t quote = eight ^ (ones * '"'), backslash = eight ^ (ones * '\\');
    uint64_t is_control = (eight - ones * 0x20) & ~eight;
    uint64_t is_mark = ((quote - ones) & ~quote) | ((backslash - ones) & ~backslash);
    return ((is_control | is_mark | (is_latin ? eight : 0)) & highs) != 0;
}

static inline bool has_other(uint64_t eight, uint64_t more, bool is_latin) {
    return eight_have_other(eight, is_latin) || eight_have_other(more, is_latin);
}
#endif

/* For fewer than 16: copies the first and the last of them at once, which may overlap. */
ALWAYS_INLINE char *put_few_characters(char *to, const byte *from, size_t length, bool is_latin) {
    if (length >= 8) {
        uint64_t first = read_u64(from), last = read_u64(from + length - 8);
        if (LIKELY(!has_other(first, last, is_latin))) {
            write_u64(to, first);
            write_u64(to + length - 8, last);
            return to + length;
        }
    } else if (length >= 4) {
        uint32_t first = read_u32(from), last = read_u32(from + length - 4);
        uint64_t both = (uint64_t)first << 32 | last;
        if (LIKELY(!has_other(both, both, is_latin))) {
            write_u32(to, first);
            write_u32(to + length - 4, last);
            return to + length;
        }
    }
    for (; length; length--, from++) {
        if (UNLIKELY(is_other(*from, is_latin))) to = put_other(to, *from);
        else *to++ = (char)*from;
    }
    return to;
}

/* `to` has room for ESCAPE_BYTES times `length`, and 16 more. */
ALWAYS_INLINE char *put_characters(char *to, const byte *from, size_t length, bool is_latin) {
#if defined(__SSE2__)
    const byte *start = from;
    while (length >= 16) {
        __m128i sixteen = _mm_loadu_si128((const __m128i *)(const void *)from);
        unsigned others = others_of(sixteen, is_latin);
        _mm_storeu_si128((__m128i *)(void *)to, sixteen);
        size_t plain = others ? (size_t)__builtin_ctz(others) : 16;
        from += plain;
        to += plain;
        length -= plain;
        if (others) {
            to = put_other(to, *from++);
            length--;
        }
    }
    /* The last sixteen at once, if all are plain: some are written again, with the same bytes. */
    if (length && (size_t)(from - start) + length >= 16) {
        __m128i sixteen = _mm_loadu_si128((const __m128i *)(const void *)(from + length - 16));
        if (LIKELY(!others_of(sixteen, is_latin))) {
            _mm_storeu_si128((__m128i *)(void *)(to + length - 16), sixteen);
            return to + length;
        }
    }
#else
    for (; length >= 16; length--, from++) {
        for (; length >= 16 && !eight_have_other(read_u64(from), is_latin);
             length -= 8, from += 8, to += 8)
            write_u64(to, read_u64(from));
        if (is_other(*from, is_latin)) to = put_other(to, *from);
        else *to++ = (char)*from;
    }
#endif
    return put_few_characters(to, from, length, is_latin);
}

static char *put_latin_characters(char *to, const byte *from, size_t length) {
    return put_characters(to, from, length, true);
}

/* Append `text` in quotes, between `before` and `after` where these are not 0. */
ALWAYS_INLINE bool put_quoted(Buffer *out, char before, PyObject *text, char after) {
    size_t length;
    bool is_latin;
    const byte *content = (const byte *)text_utf8_or_latin(text, &length, &is_latin);
    if (UNLIKELY(!content || length > TEXT_BYTES_MAX)) return false;
    if (!buffer_reserve(out, ESCAPE_BYTES * length + 20)) return false;
    char *to = out->bytes + out->length;
    if (before) *to++ = before;
    *to++ = '"';
    to = is_latin ? put_latin_characters(to, content, length)
                  : put_characters(to, content, length, false);
    *to++ = '"';
    if (after) *to++ = after;
    out->length = (size_t)(to - out->bytes);
    return true;
}

static bool put_text(Buffer *out, PyObject *text) { return put_quoted(out, 0, text, 0); }

/* Append a name behind `separator`, and a colon. */
static bool put_name(Buffer *out, char separator, PyObject *name) {
    return put_quoted(out, separator, name, ':');
}

/* --- numbers --- */

/* The digits of 0 to 99. */
static const char pairs[] = "00010203040506070809101112131415161718192021222324"
                            "25262728293031323334353637383940414243444546474849"
                            "50515253545556575859606162636465666768697071727374"
                            "75767778798081828384858687888990919293949596979899";

static char *put_digits(char *to, uint64_t number) {
    char digits[20];
    size_t first = sizeof digits;
    for (; number >= 100; number /= 100) {
        first -= 2;
        memcpy(digits + first, pairs + 2 * (number % 100), 2);
    }
    if (number >= 10) {
        first -= 2;
        memcpy(digits + first, pairs + 2 * number, 2);
    } else {
        digits[--first] = (char)('0' + number);
    }
    memcpy(to, digits + first, sizeof digits - first);
    return to + sizeof digits - first;
}

static bool put_int(Buffer *out, PyObject *value) {
    int is_large;
    long long number = PyLong_AsLongLongAndOverflow(value, &is_large);
    if (is_large || !buffer_reserve(out, NUMBER_BYTES)) return false;
    char *to = out->bytes + out->length;
    uint64_t magnitude = (uint64_t)number;
    if (number < 0) {
        *to++ = '-';
        magnitude = 0 - magnitude;
    }
    out->length = (size_t)(put_digits(to, magnitude) - out->bytes);
    return true;
}

/* Write a number with at most six decimals; false if it has more. This is exact: an integer below
 * 2^53, divided by a power of ten, is rounded as its decimal text would be. The integer is the
 * nearest one: below 10^15 the error of a product is less than a half. */
static bool put_few_decimals(Buffer *out, double value) {
    enum { DECIMALS = 6, POWER = 1000000 };
    double magnitude = fabs(value);
    if (magnitude >= 1e9 || (magnitude < 1e-4 && magnitude != 0)) return false;
    int64_t number = (int64_t)(magnitude * POWER + 0.5);
    if ((double)number / POWER != magnitude) return false;
    uint64_t whole = (uint64_t)number / POWER, rest = (uint64_t)number % POWER;
    char *to = out->bytes + out->length;
    if (signbit(value)) *to++ = '-';
    to = put_digits(to, whole);
    *to++ = '.';
    memcpy(to, pairs + 2 * (rest / 10000), 2);
    memcpy(to + 2, pairs + 2 * (rest / 100 % 100), 2);
    memcpy(to + 4, pairs + 2 * (rest % 100), 2);
    size_t shown = DECIMALS;
    while (shown > 1 && to[shown - 1] == '0') shown--;
    out->length = (size_t)(to + shown - out->bytes);
    return true;
}

static bool put_float(Buffer *out, double value) {
    if (!isfinite(value) || !buffer_reserve(out, NUMBER_BYTES)) return false;
    if (put_few_decimals(out, value)) return true;
    char *shortest = PyOS_double_to_string(value, 'r', 0, Py_DTSF_ADD_DOT_0, NULL);
    if (!shortest) {
        PyErr_Clear();
        return false;
    }
    size_t length = strlen(shortest);
    /* The format of exponents differs from that of `encode_exact`. */
    bool is_same = !memchr(shortest, 'e', length);
    if (is_same) is_same = buffer_put(out, shortest, length);
    PyMem_Free(shortest);
    return is_same;
}

/* --- values --- */

static bool put_value(Buffer *out, PyObject *value, int depth);

static bool put_dict(Buffer *out, PyObject *dict, int depth) {
    Py_ssize_t position = 0;
    PyObject *name, *value;
    char separator = '{';
    while (PyDict_Next(dict, &position, &name, &value)) {
        if (Py_TYPE(name) != &PyUnicode_Type) return false;
        if (!put_name(out, separator, name) || !put_value(out, value, depth + 1)) return false;
        separator = ',';
    }
    return (separator == ',' || buffer_put_byte(out, '{')) && buffer_put_byte(out, '}');
}

static bool put_list(Buffer *out, PyObject *list, int depth) {
    Py_ssize_t count = PyList_Size(list);
    if (!buffer_put_byte(out, '[')) return false;
    for (Py_ssize_t index = 0; index < count; index++) {
        if (index && !buffer_put_byte(out, ',')) return false;
        if (!put_value(out, PyList_GetItem(list, index), depth + 1)) return false;
    }
    return buffer_put_byte(out, ']');
}

static bool put_value(Buffer *out, PyObject *value, int depth) {
    PyTypeObject *type = Py_TYPE(value);
    if (type == &PyUnicode_Type) return put_text(out, value);
    if (type == &PyLong_Type) return put_int(out, value);
    if (type == &PyFloat_Type) return put_float(out, PyFloat_AsDouble(value));
    if (value == Py_True) return buffer_put(out, "true", 4);
    if (value == Py_False) return buffer_put(out, "false", 5);
    if (value == Py_None) return buffer_put(out, "null", 4);
    if (depth > DEPTH_MAX) return false;
    if (type == &PyDict_Type) return put_dict(out, value, depth);
    if (type == &PyList_Type) return put_list(out, value, depth);
    return false;
}

bool json_encode(Buffer *out, PyObject *value) { return put_value(out, value, 1); }

/* --- headers --- */

typedef struct {
    PyObject *name, *value;
    const char *text;
    size_t length;
} Header;

static bool is_before(const Header *one, const Header *other) {
    size_t common = one->length < other->length ? one->length : other->length;
    int order = memcmp(one->text, other->text, common);
    return order < 0 || (order == 0 && one->length < other->length);
}

bool header_is_checked_by_python(const char *name, size_t length) {
    static const char deliver_at[] = "strandline.deliver_at";
    return length == sizeof deliver_at - 1 && !memcmp(name, deliver_at, length);
}

bool json_encode_headers(Buffer *out, PyObject *headers) {
    if (Py_TYPE(headers) != &PyDict_Type) return false;
    Header sorted[HEADERS_MAX];
    Py_ssize_t position = 0;
    size_t count = 0;
    PyObject *name, *value;
    while (PyDict_Next(headers, &position, &name, &value)) {
        bool is_text = Py_TYPE(name) == &PyUnicode_Type && Py_TYPE(value) == &PyUnicode_Type;
        if (count == HEADERS_MAX || !is_text) return false;
        size_t length;
        const char *text = text_utf8(name, &length);
        if (!text || header_is_checked_by_python(text, length)) return false;
        Header header = {name, value, text, length};
        size_t place = count++;
        for (; place && is_before(&header, &sorted[place - 1]); place--)
            sorted[place] = sorted[place - 1];
        sorted[place] = header;
    }
    for (size_t index = 0; index < count; index++) {
        if (!put_name(out, index ? ',' : '{', sorted[index].name)) return false;
        if (!put_text(out, sorted[index].value)) return false;
    }
    return (count || buffer_put_byte(out, '{')) && buffer_put_byte(out, '}');
}
