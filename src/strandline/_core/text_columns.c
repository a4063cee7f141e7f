/* Columns of texts in Arrow's layout: their hashes, whether they are JSON, and headers. */
#include "core.h"

/* Longer texts are hashed by Python. */
enum { SHORT_BYTES = 1024 };

typedef struct {
    Py_buffer offsets, content;
    const int64_t *ends; /* Of text n: from ends[n] to ends[n + 1]. */
    Py_ssize_t count;
} Texts;

static void release(Texts *texts) {
    PyBuffer_Release(&texts->offsets);
    PyBuffer_Release(&texts->content);
}

/* Take `(offsets, first, count, content)`; ValueError unless every text lies in the content. */
static bool take_texts(PyObject *args, Texts *texts) {
    Py_ssize_t first;
    if (!PyArg_ParseTuple(args, "y*nny*", &texts->offsets, &first, &texts->count, &texts->content))
        return false;
    Py_ssize_t known = texts->offsets.len / (Py_ssize_t)sizeof(int64_t);
    bool is_right = first >= 0 && texts->count >= 0 && first < known && texts->count < known - first
        && (uintptr_t)texts->offsets.buf % sizeof(int64_t) == 0;
    texts->ends = (const int64_t *)texts->offsets.buf + (is_right ? first : 0);
    is_right = is_right && texts->ends[0] >= 0 && texts->ends[texts->count] <= texts->content.len;
    for (Py_ssize_t index = 0; is_right && index < texts->count; index++)
        is_right = texts->ends[index] <= texts->ends[index + 1];
    if (is_right) return true;
    release(texts);
    PyErr_SetString(PyExc_ValueError, "these texts do not lie in their content");
    return false;
}

/* See `_mixed` in spark/sink/fingerprint.py. */
static uint64_t mixed(uint64_t word) {
    word += 0x9E3779B97F4A7C15u;
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9u;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EBu;
    return word ^ (word >> 31);
}

static uint64_t word_at(const byte *text) {
    uint64_t word;
    memcpy(&word, text, sizeof word);
    return word;
}

static uint64_t number_of(const byte *text, size_t length) {
    uint64_t number = mixed(length);
    const byte *stop = text + length;
    for (; stop - text >= 8; text += 8) number = mixed(number ^ word_at(text));
    size_t rest = (size_t)(stop - text);
    if (!rest) return number;
    uint64_t word = 0;
    if (length > 8) word = word_at(stop - 8) >> 8 * (8 - rest);
    else for (size_t index = 0; index < rest; index++) word |= (uint64_t)text[index] << 8 * index;
    return mixed(number ^ word);
}

PyObject *text_numbers(PyObject *module, PyObject *args) {
    (void)module;
    Texts texts;
    if (!take_texts(args, &texts)) return NULL;
    PyObject *made = PyBytes_FromStringAndSize(NULL, texts.count * (Py_ssize_t)sizeof(uint64_t));
    char *to = made ? PyBytes_AsString(made) : NULL;
    for (Py_ssize_t index = 0; made && index < texts.count; index++) {
        size_t length = (size_t)(texts.ends[index + 1] - texts.ends[index]);
        const byte *text = (const byte *)texts.content.buf + texts.ends[index];
        uint64_t number = length <= SHORT_BYTES ? number_of(text, length) : 0;
        memcpy(to + index * (Py_ssize_t)sizeof number, &number, sizeof number);
    }
    release(&texts);
    return made;
}

PyObject *are_json(PyObject *module, PyObject *args) {
    (void)module;
    Texts texts;
    if (!take_texts(args, &texts)) return NULL;
    bool are = true;
    for (Py_ssize_t index = 0; are && index < texts.count; index++)
        are = json_is_plain((const byte *)texts.content.buf + texts.ends[index],
                            (size_t)(texts.ends[index + 1] - texts.ends[index]));
    release(&texts);
    return PyBool_FromLong(are);
}

/* --- headers --- */

/* Maps with more names are left to Python: each name is compared with all before it. */
enum { HEADERS_MAX = 32 };

typedef struct {
    Buffer starts, text; /* Where each text begins, and all texts, joined. */
} Column;

typedef struct {
    Buffer starts; /* Of the names of each map, among all names. */
    Column names, values;
} Maps;

static bool add_start(Buffer *starts, size_t start) {
    if (start > INT32_MAX || !buffer_reserve(starts, sizeof(uint32_t))) return false;
    write_u32(starts->bytes + starts->length, (uint32_t)start);
    starts->length += sizeof(uint32_t);
    return true;
}

static size_t parts_in(const Buffer *starts) { return starts->length / sizeof(uint32_t); }

static const byte *take_part(const byte *at, const byte *end, Column *column) {
    return add_start(&column->starts, column->text.length) ? json_take_text(at, end, &column->text)
                                                           : NULL;
}

/* Whether the last name differs from the others of its map, of which there are not too many. */
static bool is_new_name(const Column *names, size_t first) {
    const char *starts = names->starts.bytes;
    size_t last = parts_in(&names->starts) - 1, start = read_u32(starts + 4 * last);
    size_t length = names->text.length - start;
    for (size_t other = first; other < last; other++) {
        size_t from = read_u32(starts + 4 * other), to = read_u32(starts + 4 * (other + 1));
        if (to - from == length && !memcmp(names->text.bytes + from, names->text.bytes + start, length))
            return false;
    }
    return last - first < HEADERS_MAX;
}

/* Take a map in the form in which headers are stored: without spaces. */
static bool take_map(const byte *at, const byte *end, Maps *maps) {
    size_t first = parts_in(&maps->names.starts);
    if (!add_start(&maps->starts, first) || end - at < 2 || *at++ != '{') return false;
    if (*at == '}') return at + 1 == end;
    for (;;) {
        at = take_part(at, end, &maps->names);
        if (!at || !is_new_name(&maps->names, first) || at >= end || *at++ != ':') return false;
        at = take_part(at, end, &maps->values);
        if (!at || at >= end) return false;
        if (*at == '}') return at + 1 == end;
        if (*at++ != ',') return false;
    }
}

static bool end_column(Column *column) { return add_start(&column->starts, column->text.length); }

PyObject *header_columns(PyObject *module, PyObject *args) {
    (void)module;
    Texts texts;
    if (!take_texts(args, &texts)) return NULL;
    Maps maps = {0};
    bool are = true;
    for (Py_ssize_t index = 0; are && index < texts.count; index++)
        are = take_map((const byte *)texts.content.buf + texts.ends[index],
                       (const byte *)texts.content.buf + texts.ends[index + 1], &maps);
    release(&texts);
    are = are && add_start(&maps.starts, parts_in(&maps.names.starts)) && end_column(&maps.names)
        && end_column(&maps.values);
    Buffer *all[] = {&maps.starts, &maps.names.starts, &maps.names.text, &maps.values.starts,
                     &maps.values.text};
    PyObject *made = are ? PyTuple_New(5) : new_reference(Py_NotImplemented);
    for (int index = 0; index < 5; index++) {
        PyObject *part = are && made ? PyBytes_FromStringAndSize(all[index]->bytes,
                                                                 (Py_ssize_t)all[index]->length)
                                     : NULL;
        if (part) PyTuple_SetItem(made, index, part);
        else if (are) Py_CLEAR(made);
        free(all[index]->bytes);
    }
    return made;
}
