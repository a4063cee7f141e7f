/* The body of the answer to an append over HTTP (design 0132). */
#include "core.h"
#include <time.h>

enum { DIGITS_MAX = 20, TIME_MAX = 48, FRACTION = 1000000, FRACTION_DIGITS = 6 };

/* Write this number, with zeros before it up to `least` digits; return the end. */
static char *put_number(char *to, uint64_t number, int least) {
    char digits[DIGITS_MAX];
    int count = 0;
    while (number || count < least) {
        digits[count++] = (char)('0' + number % 10);
        number /= 10;
    }
    while (count) *to++ = digits[--count];
    return to;
}

static char *put_text(char *to, const char *text) {
    size_t length = strlen(text);
    memcpy(to, text, length);
    return to + length;
}

/* Write a time in ISO 8601. Guarded by the interpreter's lock: it keeps the text of a second. */
static char *put_time(char *to, int64_t us) {
    static char text[TIME_MAX];
    static int64_t known;
    int64_t rest = (us % FRACTION + FRACTION) % FRACTION, second = (us - rest) / FRACTION;
    if (!*text || second != known) {
        time_t at = (time_t)second;
        struct tm parts;
        if (!gmtime_r(&at, &parts) || !strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S.", &parts))
            *text = '\0';
        known = second;
    }
    to = put_number(put_text(to, text), (uint64_t)rest, FRACTION_DIGITS);
    *to++ = 'Z';
    return to;
}

PyObject *answer_of_append(PyObject *module, PyObject *args) {
    (void)module;
    const char *level;
    long long partition, offset, timestamp_us;
    Py_ssize_t count;
    if (!PyArg_ParseTuple(args, "sLLLn", &level, &partition, &offset, &timestamp_us, &count))
        return NULL;
    char begin[64], end[128], *to = put_text(end, ",\"timestamp\":\"");
    if (partition < 0 || offset < 0 || count < 1) {
        PyErr_SetString(PyExc_ValueError, "an append has records");
        return NULL;
    }
    to = put_text(put_time(to, timestamp_us), "\",\"is_repeat\":false}");
    size_t end_length = (size_t)(to - end);
    to = put_number(put_text(begin, "{\"partition\":"), (uint64_t)partition, 1);
    size_t begin_length = (size_t)(put_text(to, ",\"offset\":") - begin);
    Buffer out = {0};
    size_t each = begin_length + DIGITS_MAX + end_length + 1;
    if (!buffer_reserve(&out, 64 + strlen(level) + (size_t)count * each)) return PyErr_NoMemory();
    to = put_text(put_text(out.bytes, "{\"durability\":\""), level);
    to = put_text(to, "\",\"receipts\":[");
    for (Py_ssize_t index = 0; index < count; index++) {
        if (index) *to++ = ',';
        memcpy(to, begin, begin_length);
        to = put_number(to + begin_length, (uint64_t)(offset + index), 1);
        memcpy(to, end, end_length);
        to += end_length;
    }
    to = put_text(to, "]}");
    PyObject *made = PyBytes_FromStringAndSize(out.bytes, to - out.bytes);
    free(out.bytes);
    return made;
}
