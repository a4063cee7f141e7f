/* Where a str keeps its characters.
 *
 * The stable ABI has only a function that encodes a str that is not ASCII as UTF-8, and keeps the
 * copy with it. Every Python up to 3.13 stores the characters of a str up to U+00FF behind its
 * header, a byte each. The sizes of the headers are found out here, from sample strings. */
#include "core.h"

TextHeads text_heads;

/* Whether `content` follows a header of this size, and nothing else does. */
static bool has_head(PyObject *text, size_t head, const char *content, size_t length) {
    PyObject *size = PyObject_CallMethod(text, "__sizeof__", NULL);
    long long bytes = size ? PyLong_AsLongLong(size) : -1;
    Py_XDECREF(size);
    return bytes == (long long)(head + length + 1)
        && text_length(text) == length
        && !memcmp((const char *)text + head, content, length + 1);
}

static size_t head_of_ascii(PyObject *text, const char *content, size_t length) {
    Py_ssize_t unused;
    const char *at = PyUnicode_AsUTF8AndSize(text, &unused);
    size_t head = at ? (size_t)(at - (const char *)text) : 0;
    bool is_known = at && head < 128 && text_shape(text) == TEXT_OF_ASCII
        && has_head(text, head, content, length);
    return is_known ? head : 0;
}

/* The size of the type is that of the longest header, which has one pointer more. */
static size_t head_of_latin(PyObject *text, const char *content, size_t length) {
    PyObject *size = PyObject_GetAttrString((PyObject *)&PyUnicode_Type, "__basicsize__");
    long long longest = size ? PyLong_AsLongLong(size) : 0;
    Py_XDECREF(size);
    if (longest <= (long long)sizeof(void *) || text_shape(text) != TEXT_OF_LATIN) return 0;
    size_t head = (size_t)longest - sizeof(void *);
    return has_head(text, head, content, length) ? head : 0;
}

bool text_prepare(void) {
    enum { NEWER = 0x030e0000 };
    static const char ascii[] = "neither short nor long", latin[] = "sm\xf6rg\xe5s";
    if (Py_Version >= NEWER || sizeof(void *) != 8) return true;
    PyObject *of_ascii = PyUnicode_FromString(ascii), *of_latin = PyUnicode_FromString("smörgås"),
             *wider = PyUnicode_FromString("5 €"), *widest = PyUnicode_FromString("😀");
    bool are_made = of_ascii && of_latin && wider && widest;
    if (are_made && text_shape(wider) == TEXT_OF_TWO && text_shape(widest) == TEXT_OF_FOUR) {
        size_t for_ascii = head_of_ascii(of_ascii, ascii, sizeof ascii - 1);
        size_t for_latin = head_of_latin(of_latin, latin, sizeof latin - 1);
        if (for_ascii && for_latin) text_heads = (TextHeads){for_ascii, for_latin};
    }
    Py_XDECREF(of_ascii);
    Py_XDECREF(of_latin);
    Py_XDECREF(wider);
    Py_XDECREF(widest);
    return are_made && !PyErr_Occurred();
}

const char *text_made_utf8(PyObject *text, size_t *length) {
    Py_ssize_t size;
    const char *content = PyUnicode_AsUTF8AndSize(text, &size);
    if (!content) PyErr_Clear(); /* An unpaired surrogate: Python raises. */
    else *length = (size_t)size;
    return content;
}
