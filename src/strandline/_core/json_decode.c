/* Decodes JSON to the same values as msgspec, or leaves it to Python.
 *
 * Each function returns NULL for text that it does not support, with or without an exception:
 * `json_decode` clears it; Python decodes the text again, and raises the error if there is one.
 */
#include "json_input.h"
#include <math.h>

enum { DEPTH_MAX = 200, NAMES = 2048, NAME_BYTES_MAX = 32, NUMBER_BYTES_MAX = 63 };

/* --- text --- */

/* A cache of short texts: the names in objects, and kinds. */
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

/* Take a text that has escapes, from its beginning on. */
static PyObject *take_escaped_text(Input *in) {
    char *content = malloc((size_t)(in->end - in->at) + 1), *to = content;
    PyObject *made = NULL;
    if (!content) return NULL;
    while (in->at < in->end && *in->at != '"') {
        byte one = *in->at++;
        if (one < 0x20) goto done;
        if (one != '\\') *to++ = (char)one;
        else if (!json_take_escape(in, &to)) goto done;
    }
    if (in->at < in->end) {
        in->at++;
        made = PyUnicode_DecodeUTF8(content, to - content, NULL);
    }
done:
    free(content);
    return made;
}

/* Take a text, behind its opening quote. */
static PyObject *take_text(Input *in, bool is_name) {
    bool is_ascii;
    const byte *start = in->at, *stop = json_plain_run(start, in->end, &is_ascii);
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
    /* Both are exact, so the quotient is the nearest double. */
    if (!has_exponent && whole + decimals <= DIGITS_MAX && number < 1ull << 53) {
        double value = (double)number / powers[decimals];
        return PyFloat_FromDouble(is_negative ? -value : value);
    }
    return float_of(start, in->at);
}

/* --- values --- */

static PyObject *take_value(Input *in);

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

static PyObject *take_constant(Input *in, const char *word, PyObject *value) {
    return take_word(in, word) ? new_reference(value) : NULL;
}

static PyObject *take_value(Input *in) {
    skip_space(in);
    if (in->at >= in->end) return NULL;
    switch (*in->at) {
    case '"': in->at++; return take_text(in, false);
    case '{': in->at++; return take_container(in, true);
    case '[': in->at++; return take_container(in, false);
    case 't': return take_constant(in, "true", Py_True);
    case 'f': return take_constant(in, "false", Py_False);
    case 'n': return take_constant(in, "null", Py_None);
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
