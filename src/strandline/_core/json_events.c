/* Decodes events from JSON, as the bodies of requests have them.
 *
 * The payload of an event is stored as `encode_exact` writes what msgspec decodes. Here the text is
 * converted directly: spaces and needless escapes are left out. Each function returns false for
 * what Python has to handle.
 */
#include "json_input.h"

enum {
    COPY_DEPTH_MAX = 32,
    /* Each name of an object is compared with all previous ones. */
    NAMES_MAX = 64,
    HEADERS_MAX = 8,
    /* With at most so many digits, a decimal is the shortest text of its nearest double. */
    EXACT_DIGITS_MAX = 15,
    BODY_BYTES_MAX = 1 << 20
};

/* --- payloads --- */

/* Copy a text, behind its opening quote, and quote it. */
static bool copy_text(Input *in, Buffer *out) {
    if (!buffer_put_byte(out, '"')) return false;
    for (;;) {
        bool is_ascii;
        const byte *start = in->at;
        in->at = json_plain_run(start, in->end, &is_ascii);
        size_t length = (size_t)(in->at - start);
        if (in->at >= in->end || !(is_ascii || is_utf8(start, length)) || !buffer_put(out, start, length))
            return false;
        byte one = *in->at++;
        if (one == '"') return buffer_put_byte(out, '"');
        char meant[4], *stop = meant;
        if (one != '\\' || !json_take_escape(in, &stop)) return false;
        if (!buffer_reserve(out, ESCAPE_BYTES)) return false;
        if (json_is_escaped((byte)meant[0])) {
            char *to = json_put_escape(out->bytes + out->length, (byte)meant[0]);
            out->length = (size_t)(to - out->bytes);
        } else {
            buffer_put(out, meant, (size_t)(stop - meant));
        }
    }
}

/* Copy a number that has no exponent, and that `encode_exact` writes without one. */
static bool copy_number(Input *in, Buffer *out) {
    const byte *start = in->at, *first = start + (*start == '-');
    uint64_t number = 0;
    in->at = first;
    int whole = take_digits(in, &number, 0), decimals = 0;
    if (!whole || whole > DIGITS_MAX || (whole > 1 && *first == '0')) return false;
    if (in->at < in->end && *in->at == '.') {
        in->at++;
        decimals = take_digits(in, &number, whole);
        if (!decimals || whole + decimals > EXACT_DIGITS_MAX) return false;
    }
    bool has_exponent = in->at < in->end && (*in->at == 'e' || *in->at == 'E');
    bool is_minus_zero = !number && first != start;
    bool is_small = number && decimals > 4 && !memcmp(first, "0.0000", 6);
    if (has_exponent || is_minus_zero || is_small) return false;
    const byte *stop = in->at;
    while (decimals-- > 1 && stop[-1] == '0') stop--;
    return buffer_put(out, start, (size_t)(stop - start));
}

static bool copy_value(Input *in, Buffer *out);

/* Whether the last of these names differs from all others. */
static bool is_new_name(const Run *names, size_t count, const char *text) {
    const Run *last = &names[count - 1];
    for (const Run *name = names; name < last; name++)
        if (name->length == last->length && !memcmp(text + name->at, text + last->at, name->length))
            return false;
    return true;
}

/* Copy the rest of an object, behind its opening bracket. */
static bool copy_object(Input *in, Buffer *out) {
    Run names[NAMES_MAX];
    size_t count = 0;
    if (!buffer_put_byte(out, '{')) return false;
    if (take_mark(in, '}')) return buffer_put_byte(out, '}');
    do {
        if (count == NAMES_MAX || (count && !buffer_put_byte(out, ','))) return false;
        size_t start = out->length;
        if (!take_mark(in, '"') || !copy_text(in, out)) return false;
        names[count++] = (Run){(uint32_t)start, (uint32_t)(out->length - start)};
        if (!is_new_name(names, count, out->bytes)) return false;
        if (!take_mark(in, ':') || !buffer_put_byte(out, ':') || !copy_value(in, out)) return false;
    } while (take_mark(in, ','));
    return take_mark(in, '}') && buffer_put_byte(out, '}');
}

static bool copy_array(Input *in, Buffer *out) {
    if (!buffer_put_byte(out, '[')) return false;
    if (take_mark(in, ']')) return buffer_put_byte(out, ']');
    for (;;) {
        if (!copy_value(in, out)) return false;
        if (!take_mark(in, ',')) break;
        if (!buffer_put_byte(out, ',')) return false;
    }
    return take_mark(in, ']') && buffer_put_byte(out, ']');
}

static bool copy_container(Input *in, Buffer *out) {
    if (in->depth >= COPY_DEPTH_MAX) return false;
    in->depth++;
    bool is_copied = *in->at++ == '{' ? copy_object(in, out) : copy_array(in, out);
    in->depth--;
    return is_copied;
}

static bool copy_word(Input *in, Buffer *out, const char *word) {
    return take_word(in, word) && buffer_put(out, word, strlen(word));
}

static bool copy_value(Input *in, Buffer *out) {
    skip_space(in);
    if (in->at >= in->end) return false;
    switch (*in->at) {
    case '"': in->at++; return copy_text(in, out);
    case '{':
    case '[': return copy_container(in, out);
    case 't': return copy_word(in, out, "true");
    case 'f': return copy_word(in, out, "false");
    case 'n': return copy_word(in, out, "null");
    default: return copy_number(in, out);
    }
}

/* --- headers --- */

typedef struct {
    Run name, text; /* With their quotes. */
} HeaderRuns;

/* Compare two names by their UTF-8: less than 0, 0 or more. */
static int order_of(const char *text, Run one, Run other) {
    size_t common = one.length < other.length ? one.length : other.length;
    int order = memcmp(text + one.at, text + other.at, common - 1);
    return order ? order : (one.length > other.length) - (one.length < other.length);
}

static bool copy_run(Input *in, Buffer *out, Run *run) {
    size_t start = out->length;
    if (!take_mark(in, '"') || !copy_text(in, out)) return false;
    *run = (Run){(uint32_t)start, (uint32_t)(out->length - start)};
    return true;
}

static bool is_plain_name(const char *text, Run name) {
    const char *first = text + name.at + 1;
    size_t length = name.length - 2;
    return !memchr(first, '\\', length) && !header_is_checked_by_python(first, length);
}

/* Take headers, behind their opening bracket, in the order of their names. */
static bool take_headers(Input *in, Buffer *out, HeaderRuns *sorted, size_t *count) {
    *count = 0;
    if (take_mark(in, '}')) return true;
    do {
        HeaderRuns header;
        if (*count == HEADERS_MAX || !copy_run(in, out, &header.name)) return false;
        if (!is_plain_name(out->bytes, header.name)) return false;
        if (!take_mark(in, ':') || !copy_run(in, out, &header.text)) return false;
        size_t place = (*count)++;
        for (; place; place--) {
            int order = order_of(out->bytes, header.name, sorted[place - 1].name);
            if (!order) return false;
            if (order > 0) break;
            sorted[place] = sorted[place - 1];
        }
        sorted[place] = header;
    } while (take_mark(in, ','));
    return take_mark(in, '}');
}

static bool put_run(Buffer *out, Run run) {
    /* Reserve first: it may move the bytes that are copied. */
    return buffer_reserve(out, run.length) && buffer_put(out, out->bytes + run.at, run.length);
}

static bool copy_headers(Input *in, Buffer *out, Run *headers) {
    HeaderRuns sorted[HEADERS_MAX];
    size_t count;
    if (!take_mark(in, '{') || !take_headers(in, out, sorted, &count)) return false;
    size_t start = out->length;
    if (!buffer_put_byte(out, '{')) return false;
    for (size_t index = 0; index < count; index++) {
        if (index && !buffer_put_byte(out, ',')) return false;
        if (!put_run(out, sorted[index].name) || !buffer_put_byte(out, ':')) return false;
        if (!put_run(out, sorted[index].text)) return false;
    }
    if (!buffer_put_byte(out, '}')) return false;
    *headers = (Run){(uint32_t)start, (uint32_t)(out->length - start)};
    return true;
}

/* --- events --- */

enum { KIND = 1, KEY = 2, PAYLOAD = 4, HEADERS = 8, OCCURRED_AT = 16 };

typedef struct {
    Run kind, key, payload, headers;
    int seen;
    bool has_key;
} Fields;

static int take_field_name(Input *in) {
    if (!take_mark(in, '"')) return 0;
    if (take_word(in, "kind\"")) return KIND;
    if (take_word(in, "key\"")) return KEY;
    if (take_word(in, "payload\"")) return PAYLOAD;
    if (take_word(in, "headers\"")) return HEADERS;
    return take_word(in, "occurred_at\"") ? OCCURRED_AT : 0;
}

/* Take a string, unescaped. */
static bool take_meaning(Input *in, Buffer *out, Run *run) {
    size_t start = out->length;
    skip_space(in);
    const byte *stop = json_take_text(in->at, in->end, out);
    if (!stop) return false;
    in->at = stop;
    *run = (Run){(uint32_t)start, (uint32_t)(out->length - start)};
    return is_utf8((const byte *)out->bytes + start, run->length);
}

static bool take_null(Input *in) {
    skip_space(in);
    return take_word(in, "null");
}

static bool take_field(Input *in, Buffer *out, Fields *fields) {
    int field = take_field_name(in);
    if (!field || fields->seen & field || !take_mark(in, ':')) return false;
    fields->seen |= field;
    size_t start = out->length;
    switch (field) {
    case KIND: return take_meaning(in, out, &fields->kind);
    case KEY:
        if (take_null(in)) return true;
        fields->has_key = true;
        return take_meaning(in, out, &fields->key);
    case PAYLOAD:
        if (!copy_value(in, out)) return false;
        fields->payload = (Run){(uint32_t)start, (uint32_t)(out->length - start)};
        return true;
    case HEADERS: return copy_headers(in, out, &fields->headers);
    /* A time is left to Python. */
    default: return take_null(in);
    }
}

static bool take_fields(Input *in, Buffer *out, Fields *fields) {
    if (!take_mark(in, '{')) return false;
    do {
        if (!take_field(in, out, fields)) return false;
    } while (take_mark(in, ','));
    if (!take_mark(in, '}') || !(fields->seen & KIND)) return false;
    return is_plain_kind((const byte *)out->bytes + fields->kind.at, fields->kind.length);
}

/* Return the next event; NULL, perhaps without an exception, for anything else. */
static PyObject *take_event(Input *in, Buffer *out) {
    Fields fields = {0};
    out->length = 0;
    if (!take_fields(in, out, &fields)) return NULL;
    EventParts parts = {.kind = out->bytes + fields.kind.at, .kind_length = fields.kind.length,
                        .key = out->bytes + fields.key.at, .key_length = fields.key.length,
                        .has_key = fields.has_key,
                        .payload = "null", .payload_length = 4,
                        .headers = "{}", .headers_length = 2};
    if (fields.seen & PAYLOAD) {
        parts.payload = out->bytes + fields.payload.at;
        parts.payload_length = fields.payload.length;
    }
    if (fields.seen & HEADERS) {
        parts.headers = out->bytes + fields.headers.at;
        parts.headers_length = fields.headers.length;
    }
    return (PyObject *)event_of_parts(&parts);
}

static bool add_event(PyObject *events, PyObject *event) {
    bool is_added = event && PyList_Append(events, event) == 0;
    Py_XDECREF(event);
    return is_added;
}

/* Add the events of the whole text: a single one, or an array. */
static bool take_events(Input *in, Buffer *out, PyObject *events, Py_ssize_t count_max) {
    bool is_array = take_mark(in, '[');
    if (!is_array || !take_mark(in, ']')) {
        do {
            if (PyList_Size(events) == count_max || !add_event(events, take_event(in, out))) return false;
        } while (is_array && take_mark(in, ','));
        if (is_array && !take_mark(in, ']')) return false;
    }
    skip_space(in);
    return in->at == in->end;
}

PyObject *events_of_json(PyObject *module, PyObject *args) {
    (void)module;
    const char *text;
    Py_ssize_t length, count_max;
    if (!PyArg_ParseTuple(args, "y#n:events_of_json", &text, &length, &count_max)) return NULL;
    if (length > BODY_BYTES_MAX) Py_RETURN_NOTIMPLEMENTED;
    Input in = {(const byte *)text, (const byte *)text + length, 0};
    Buffer out = {0};
    PyObject *events = PyList_New(0);
    if (events && !take_events(&in, &out, events, count_max)) {
        Py_CLEAR(events);
        if (!PyErr_Occurred()) events = new_reference(Py_NotImplemented);
    }
    free(out.bytes);
    return events;
}
