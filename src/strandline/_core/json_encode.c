/* JSON out: the same bytes as `encode_exact` and `encode_sorted`, or nothing.
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
    /* A longer text is Python's: room for it is reserved as if all of it were escaped. */
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

/* Whether any of eight bytes is escaped. */
static inline bool has_escaped(uint64_t eight) {
    const uint64_t ones = 0x0101010101010101u, highs = 0x8080808080808080u;
    uint64_t quote = eight ^ (ones * '"'), backslash = eight ^ (ones * '\\');
    uint64_t is_control = (eight - ones * 0x20) & ~eight;
    uint64_t is_other = ((quote - ones) & ~quote) | ((backslash - ones) & ~backslash);
    return ((is_control | is_other) & highs) != 0;
}

/* Fewer than 16: the first and the last of them at once, which may overlap. */
static char *put_few_characters(char *to, const byte *from, size_t length) {
    if (length >= 8) {
        uint64_t first = read_u64(from), last = read_u64(from + length - 8);
        if (LIKELY(!has_escaped(first) && !has_escaped(last))) {
            write_u64(to, first);
            write_u64(to + length - 8, last);
            return to + length;
        }
    } else if (length >= 4) {
        uint32_t first = read_u32(from), last = read_u32(from + length - 4);
        if (LIKELY(!has_escaped((uint64_t)first << 32 | last))) {
            write_u32(to, first);
            write_u32(to + length - 4, last);
            return to + length;
        }
    }
    for (; length; length--, from++) {
        if (UNLIKELY(json_is_escaped(*from))) to = json_put_escape(to, *from);
        else *to++ = (char)*from;
    }
    return to;
}

/* `to` has room for ESCAPE_BYTES times `length`, and 16 more. */
static char *put_characters(char *to, const byte *from, size_t length) {
#if defined(__SSE2__)
    const __m128i control = _mm_set1_epi8(0x1f), quote = _mm_set1_epi8('"'),
                  backslash = _mm_set1_epi8('\\');
    while (length >= 16) {
        __m128i sixteen = _mm_loadu_si128((const __m128i *)from);
        __m128i is_control = _mm_cmpeq_epi8(_mm_min_epu8(sixteen, control), sixteen);
        __m128i is_other = _mm_or_si128(
            _mm_cmpeq_epi8(sixteen, quote), _mm_cmpeq_epi8(sixteen, backslash));
        int escaped = _mm_movemask_epi8(_mm_or_si128(is_control, is_other));
        _mm_storeu_si128((__m128i *)to, sixteen);
        size_t plain = escaped ? (size_t)__builtin_ctz((unsigned)escaped) : 16;
        from += plain;
        to += plain;
        length -= plain;
        if (escaped) {
            to = json_put_escape(to, *from++);
            length--;
        }
    }
#else
    for (; length >= 16; length--, from++) {
        for (; length >= 16 && !has_escaped(read_u64(from)); length -= 8, from += 8, to += 8)
            write_u64(to, read_u64(from));
        if (json_is_escaped(*from)) to = json_put_escape(to, *from);
        else *to++ = (char)*from;
    }
#endif
    return put_few_characters(to, from, length);
}

/* Append `text` in quotes, between these two where they are not 0. */
static bool put_quoted(Buffer *out, char before, PyObject *text, char after) {
    Py_ssize_t length;
    const char *content = PyUnicode_AsUTF8AndSize(text, &length);
    if (!content) {
        PyErr_Clear(); /* Half of a surrogate pair: Python says so. */
        return false;
    }
    if (length > TEXT_BYTES_MAX) return false;
    if (!buffer_reserve(out, ESCAPE_BYTES * (size_t)length + 20)) return false;
    char *to = out->bytes + out->length;
    if (before) *to++ = before;
    *to++ = '"';
    to = put_characters(to, (const byte *)content, (size_t)length);
    *to++ = '"';
    if (after) *to++ = after;
    out->length = (size_t)(to - out->bytes);
    return true;
}

static bool put_text(Buffer *out, PyObject *text) { return put_quoted(out, 0, text, 0); }

/* --- numbers --- */

static char *put_digits(char *to, uint64_t number) {
    static const char pairs[] = "00010203040506070809101112131415161718192021222324"
                                "25262728293031323334353637383940414243444546474849"
                                "50515253545556575859606162636465666768697071727374"
                                "75767778798081828384858687888990919293949596979899";
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

/* Write a number with at most six decimals; false if it has more. Both are exact: a whole
 * number below 2^53, divided by a power of ten, is rounded as its decimal text would be. */
static bool put_few_decimals(Buffer *out, double value) {
    static const double powers[] = {1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6};
    double magnitude = fabs(value);
    if (magnitude >= 1e9 || (magnitude < 1e-4 && magnitude != 0)) return false;
    for (int decimals = 0; decimals <= 6; decimals++) {
        double scaled = (double)(int64_t)(magnitude * powers[decimals] + 0.5);
        if (scaled / powers[decimals] != magnitude) continue;
        uint64_t number = (uint64_t)scaled, power = (uint64_t)powers[decimals];
        char *to = out->bytes + out->length;
        if (signbit(value)) *to++ = '-';
        to = put_digits(to, number / power);
        *to++ = '.';
        number %= power;
        int shown = decimals ? decimals : 1;
        for (int place = shown; place-- > 0; number /= 10) to[place] = (char)('0' + number % 10);
        out->length = (size_t)(to + shown - out->bytes);
        return true;
    }
    return false;
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
    /* An exponent is written in another way than Python's. */
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
        if (!put_quoted(out, separator, name, ':') || !put_value(out, value, depth + 1)) return false;
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
        Py_ssize_t length;
        const char *text = PyUnicode_AsUTF8AndSize(name, &length);
        if (!text) {
            PyErr_Clear();
            return false;
        }
        if (header_is_checked_by_python(text, (size_t)length)) return false;
        Header header = {name, value, text, (size_t)length};
        size_t place = count++;
        for (; place && is_before(&header, &sorted[place - 1]); place--)
            sorted[place] = sorted[place - 1];
        sorted[place] = header;
    }
    for (size_t index = 0; index < count; index++) {
        if (!put_quoted(out, index ? ',' : '{', sorted[index].name, ':')) return false;
        if (!put_text(out, sorted[index].value)) return false;
    }
    return (count || buffer_put_byte(out, '{')) && buffer_put_byte(out, '}');
}
