/* Splits a complete request of HTTP/1.1 into its head and its body. */
#include "core.h"

static const char END_OF_HEAD[] = "\r\n\r\n";
/* The end of the name of Content-Length, as clients write it. */
static const char LENGTH[] = "ength: ";
enum { END_BYTES = 4, LENGTH_BYTES = 7, DIGITS_MAX = 9 };

/* Where the digits of the last Content-Length begin; 0 if there is none. */
static size_t find_length(const char *head, size_t size) {
    for (size_t at = size; at >= LENGTH_BYTES; at--)
        if (!memcmp(head + at - LENGTH_BYTES, LENGTH, LENGTH_BYTES)) return at;
    return 0;
}

/* How many digits at `text` are `length` in plain decimal; 0 if they are something else. */
static size_t digits_of(const char *text, size_t left, size_t length) {
    size_t count = 0, said = 0;
    while (count < left && count < DIGITS_MAX && text[count] >= '0' && text[count] <= '9')
        said = said * 10 + (size_t)(text[count++] - '0');
    bool is_plain = count && (text[0] != '0' || count == 1);
    bool is_ended = count == left || text[count] == '\r';
    return is_plain && is_ended && said == length ? count : 0;
}

PyObject *split_request(PyObject *module, PyObject *request) {
    (void)module;
    const char *whole = PyBytes_AsString(request);
    if (!whole) return NULL;
    size_t size = (size_t)PyBytes_Size(request);
    const char *end = memmem(whole, size, END_OF_HEAD, END_BYTES);
    if (!end) Py_RETURN_NONE;
    size_t head = (size_t)(end - whole), body = size - head - END_BYTES;
    size_t at = find_length(whole, head), digits = at ? digits_of(whole + at, head - at, body) : 0;
    if (!digits) Py_RETURN_NONE;
    PyObject *cut = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(head - digits));
    if (!cut) return NULL;
    char *to = PyBytes_AsString(cut);
    memcpy(to, whole, at);
    memcpy(to + at, whole + at + digits, head - at - digits);
    return Py_BuildValue("(Ny#)", cut, end + END_BYTES, (Py_ssize_t)body);
}
