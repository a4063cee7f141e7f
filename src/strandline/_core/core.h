/* What the files of the core share. See core.pyi for what each Python name does.
 *
 * The core is only a fast path: in uncommon cases it does nothing and leaves the work to Python.
 * A function that may do so returns 0, or NotImplemented.
 *
 * The interpreter's lock guards all data here, unless a comment says that it is used without it.
 */
#ifndef STRANDLINE_CORE_H
#define STRANDLINE_CORE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "abi3.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the stored format is little-endian, and so is the core"
#endif

/* Incremented with each change of the interface between Python and the core. */
#define CORE_INTERFACE 23

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define LIKELY(condition) __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

typedef unsigned char byte;

static inline uint32_t read_u32(const void *at) {
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}
static inline uint64_t read_u64(const void *at) {
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return value;
}
static inline int64_t read_i64(const void *at) { return (int64_t)read_u64(at); }
static inline void write_u32(void *at, uint32_t value) { memcpy(at, &value, sizeof value); }
static inline void write_u64(void *at, uint64_t value) { memcpy(at, &value, sizeof value); }
static inline void write_i64(void *at, int64_t value) { write_u64(at, (uint64_t)value); }

/* --- bytes that grow --- */

typedef struct {
    char *bytes;
    size_t length, room;
} Buffer;

/* Reserve room for `more` bytes; false, with nothing changed, if there is no memory. */
bool buffer_grow(Buffer *buffer, size_t more);
static inline bool buffer_reserve(Buffer *buffer, size_t more) {
    return LIKELY(more <= buffer->room - buffer->length) || buffer_grow(buffer, more);
}
static inline bool buffer_put(Buffer *buffer, const void *content, size_t length) {
    if (!length) return true;
    if (!buffer_reserve(buffer, length)) return false;
    memcpy(buffer->bytes + buffer->length, content, length);
    buffer->length += length;
    return true;
}
static inline bool buffer_put_byte(Buffer *buffer, char one) { return buffer_put(buffer, &one, 1); }
/* Empty the buffer, and free its memory if it is unusually large. */
void buffer_reset(Buffer *buffer);

/* --- crc32c.c --- */

void crc32c_prepare(void);
uint32_t crc32c(uint32_t seed, const void *data, size_t length);

/* --- utf8.c --- */

void utf8_prepare(void);
bool is_utf8(const byte *text, size_t length);
/* Whether a byte continues a character of UTF-8. */
static inline bool is_continuation(byte one) { return (one & 0xc0) == 0x80; }

/* --- text_place.c --- */

/* The size of the header of a str before its characters; 0 if it is unknown. */
typedef struct {
    size_t ascii, latin;
} TextHeads;
extern TextHeads text_heads;

enum { TEXT_LENGTH_AT = 16, TEXT_STATE_AT = 32 };
/* Bits of the state of a str: ASCII, compact, and how many bytes a character takes. */
enum {
    TEXT_OF_LATIN = 1 << 5 | 1 << 2,
    TEXT_OF_TWO = 1 << 5 | 2 << 2,
    TEXT_OF_FOUR = 1 << 5 | 4 << 2,
    TEXT_OF_ASCII = 1 << 6 | TEXT_OF_LATIN,
    TEXT_SHAPES = 1 << 6 | 1 << 5 | 7 << 2
};
static inline uint32_t text_shape(PyObject *text) {
    return read_u32((const char *)text + TEXT_STATE_AT) & TEXT_SHAPES;
}
/* Find out how a str is laid out in memory; false with an exception. */
bool text_prepare(void);
const char *text_made_utf8(PyObject *text, size_t *length);
static inline size_t text_length(PyObject *text) {
    return read_u64((const char *)text + TEXT_LENGTH_AT);
}
/* Return the UTF-8 of a text; NULL, without an exception, if it cannot be encoded. */
static inline const char *text_utf8(PyObject *text, size_t *length) {
    if (UNLIKELY(!text_heads.ascii || text_shape(text) != TEXT_OF_ASCII))
        return text_made_utf8(text, length);
    *length = text_length(text);
    return (const char *)text + text_heads.ascii;
}
/* The same; for a text of Latin-1, if its layout is known, the characters, a byte each. */
static inline const char *text_utf8_or_latin(PyObject *text, size_t *length, bool *is_latin) {
    *is_latin = text_heads.latin && text_shape(text) == TEXT_OF_LATIN;
    if (LIKELY(!*is_latin)) return text_utf8(text, length);
    *length = text_length(text);
    return (const char *)text + text_heads.latin;
}

/* --- json_encode.c, json_decode.c, json_text.c --- */

/* The longest escape of one byte. */
enum { ESCAPE_BYTES = 6 };
static inline bool json_is_escaped(byte one) { return one < 0x20 || one == '"' || one == '\\'; }
/* Write the escape of a byte; return the position behind it. */
char *json_put_escape(char *to, byte one);
/* Whether the value of this header has a syntax; see `strandline.values.delivery_time`. */
bool header_is_checked_by_python(const char *name, size_t length);

/* Append the JSON of `value`; false where Python has to do it. Raises nothing. */
bool json_encode(Buffer *out, PyObject *value);
/* Append the JSON of few headers, sorted by name; false where Python has to do it. */
bool json_encode_headers(Buffer *out, PyObject *headers);
/* Return the decoded value; NULL, without an exception, where Python has to do it. */
PyObject *json_decode(const char *text, size_t length);
/* Whether the text is JSON that Python accepts; false also if only Python can decide. */
bool json_is_plain(const byte *text, size_t length);
/* Append an unescaped string to `to`; return its end, or NULL if Python has to decode it. */
const byte *json_take_text(const byte *text, const byte *end, Buffer *to);
/* Return the text of these ASCII bytes; short ones are cached. */
PyObject *text_of_ascii(const byte *text, size_t length);

/* --- msgpack.c: each put returns the position behind it --- */

char *msgpack_put_text_head(char *at, size_t length);
char *msgpack_put_bytes_head(char *at, size_t length);
char *msgpack_put_array_head(char *at, size_t count);
char *msgpack_put_int(char *at, int64_t value);

typedef struct {
    const byte *at, *end;
} Unpacking;
/* Each advances past what it read; false if it has another type, or is truncated. */
bool msgpack_take_nil(Unpacking *in);
bool msgpack_take_array(Unpacking *in, size_t *count);
bool msgpack_take_text(Unpacking *in, const byte **text, size_t *length);
bool msgpack_take_bytes(Unpacking *in, const byte **bytes, size_t *length);
bool msgpack_take_int(Unpacking *in, int64_t *value);

/* --- event.c, event_call.c, event_type.c --- */

enum { KIND_BYTES_MAX = 200 };

/* A run of bytes in an event's row. */
typedef struct {
    uint32_t at, length;
} Run;

typedef struct {
    PyObject_VAR_HEAD
    /* Created on first access; NULL until then. */
    PyObject *kind_text, *key_text, *payload_value, *headers_value;
    int64_t occurred_at_us;
    Run key, kind, payload, headers;
    uint32_t row_length;
    bool has_key, has_headers, has_occurred_at;
    /* The event as it is stored in a frame of rows. */
    char row[];
} Event;

/* The parts of an event, borrowed. */
typedef struct {
    const char *kind, *key, *payload, *headers;
    size_t kind_length, key_length, payload_length, headers_length;
    int64_t occurred_at_us;
    bool has_key, has_occurred_at;
} EventParts;

extern PyTypeObject *EventType;
extern PyType_Spec event_spec;

Event *event_of_parts(const EventParts *parts);
/* Return a copy, which shares no mutable value with the original. */
Event *event_copy(const Event *event);
/* Create an event from a row that was checked; `in` is advanced past it. */
Event *event_of_row(Unpacking *in);
/* Whether `in` begins with a row that `event_of_row` can read; `in` is advanced past it. */
bool event_row_is_plain(Unpacking *in);
bool is_plain_kind(const byte *text, size_t length);

/* The arguments of `Event(...)`, borrowed; `headers` may be NULL. */
typedef struct {
    PyObject *kind, *payload, *key, *headers, *occurred_at;
} Arguments;

PyObject *event_of_arguments(const Arguments *given);
PyObject *event_new(PyTypeObject *type, PyObject *args, PyObject *kwargs);
/* Make the interpreter call the type without a tuple and a dict; false with an exception. */
bool event_set_call(void);
PyObject *event_load(PyObject *type, PyObject *const *args, Py_ssize_t count);
PyObject *event_load_many(PyObject *type, PyObject *const *args, Py_ssize_t count);

static inline const char *event_headers(const Event *event) {
    return event->has_headers ? event->row + event->headers.at : "{}";
}
/* The size of an event, as limits and counters use it. */
static inline int64_t event_size(const Event *event) {
    return (int64_t)event->key.length + event->kind.length + event->payload.length
        + event->headers.length;
}
/* The size of all events of a list. */
int64_t events_size(PyObject *events);
PyObject *event_kind(Event *event, void *closure);
PyObject *event_key(Event *event, void *closure);
PyObject *event_payload(Event *event, void *closure);
PyObject *event_get_headers(Event *event, void *closure);

/* --- json_events.c --- */

PyObject *events_of_json(PyObject *module, PyObject *args);

/* --- answer.c --- */

PyObject *answer_of_append(PyObject *module, PyObject *args);

/* --- request.c --- */

PyObject *split_request(PyObject *module, PyObject *request);

/* --- record.c --- */

extern PyTypeObject *RecordType;
extern PyType_Spec record_spec;

/* Steals the reference to `value`, which may be NULL with an exception set.
 * `key` may be NULL where `value` is an event: then the record has the event's. */
PyObject *record_of(PyObject *topic, PyObject *partition, int64_t offset, int64_t timestamp_us,
                    PyObject *key, PyObject *tenant, PyObject *value);
PyObject *copies_of(PyObject *module, PyObject *events);
PyObject *records_of(PyObject *module, PyObject *args);

/* --- columns.c: a frame of columns, which is an Arrow message of five --- */

enum { TEXT_COLUMNS = 4, COLUMN_BUFFERS = 14, COLUMNS_MIN = 64 };

typedef struct {
    const char *offsets[TEXT_COLUMNS], *content[TEXT_COLUMNS];
    uint64_t content_length[TEXT_COLUMNS];
    const char *key_bits, *time_bits, *times;
    uint32_t count;
} Columns;

/* Whether a row has a value; all have one where there are no bits. */
static inline bool bit_at(const char *bits, uint32_t row) {
    return !bits || ((byte)bits[row / 8] >> (row % 8) & 1);
}

/* Store how pyarrow writes such a message. */
PyObject *columns_learn(PyObject *module, PyObject *args);
/* Find the columns of a message of `count` events; false if it is another message. Of the offsets
 * of texts only the first and the last are checked to lie within the content. */
bool columns_find(Columns *columns, const char *message, size_t length, uint32_t count);
/* Whether the offsets of a text column never decrease, and lie within the content. */
bool columns_rise(const Columns *columns, int column);
/* Whether `message` is one of `count` events that `columns_event` can read. */
bool columns_open(Columns *columns, const char *message, size_t length, uint32_t count);
Event *columns_event(const Columns *columns, uint32_t row);

/* Where each buffer of a message goes. */
typedef struct {
    size_t at[COLUMN_BUFFERS], length[COLUMN_BUFFERS], total;
    Py_ssize_t keys_missing, times_missing;
} ColumnsLayout;

/* Return the size of the message of these events; 0 if Python has to encode it. */
size_t columns_measure(ColumnsLayout *layout, PyObject *events, Py_ssize_t count);
/* Write the message of the events that were measured. */
void columns_write(char *message, const ColumnsLayout *layout, PyObject *events, Py_ssize_t count);

/* --- routing.c --- */

/* Return the partition of an event that has a key. */
uint32_t event_partition(const Event *event, uint32_t partitions);
PyObject *route(PyObject *module, PyObject *args);

/* --- record_rows.c --- */

PyObject *record_rows(PyObject *module, PyObject *args);
PyObject *sizes_of(PyObject *module, PyObject *args);

/* --- writeback.c --- */

PyObject *start_writeback(PyObject *module, PyObject *args);

/* --- record_rows.c, lock_sign.c --- */

PyObject *record_row(PyObject *module, PyObject *args);
PyObject *is_signed(PyObject *module, PyObject *packed);

/* --- running_loop.c --- */

/* Whether the loop that was registered last runs in this thread. */
bool is_loop_known(void);
PyObject *running_loop(PyObject *module, PyObject *unused);
PyObject *know_running_loop(PyObject *module, PyObject *loop);

/* --- text_columns.c --- */

PyObject *text_numbers(PyObject *module, PyObject *args);
PyObject *are_json(PyObject *module, PyObject *args);
PyObject *header_columns(PyObject *module, PyObject *args);

/* --- text_check.c --- */

PyObject *are_texts(PyObject *module, PyObject *args);

/* --- reader.c --- */

enum { FRAME_HEAD = 40, FRAME_ROWS = 1, FRAME_COLUMNS = 2, FRAME_BYTES_MAX = 1 << 30 };

extern PyTypeObject *ReaderType;
extern PyType_Spec reader_spec;

/* For a follower: return the offset of the next frame, and set `position` to where it begins. */
int64_t reader_place(PyObject *reader, int64_t *position);
/* Read the few bytes before `end`. Called without the interpreter's lock. */
void reader_fetch(PyObject *reader, int64_t end);
/* Return a list of the records up to `stop`, whose frame ends at `end`, or of those before the
 * first frame that Python has to read; NULL with an exception. */
PyObject *reader_take(PyObject *reader, int64_t end, int64_t stop);

/* --- follower.c --- */

extern PyTypeObject *FollowerType;
extern PyType_Spec follower_spec;

/* --- module.c --- */

/* Python's functions that do what the core leaves to them. Set by `bind`, never NULL after. */
typedef struct {
    PyObject *encode_payload, *encode_headers, *check_kind, *check_key, *us_from_datetime,
        *datetime_from_us, *decode_payload, *decode_headers, *events_equal, *event_text,
        *raise_too_large, *raise_no_event, *record_text;
} Twins;
extern Twins twins;

static inline PyObject *call_one(PyObject *function, PyObject *argument) {
    return PyObject_CallFunctionObjArgs(function, argument, NULL);
}
static inline PyObject *new_reference(PyObject *object) {
    Py_INCREF(object);
    return object;
}
/* Free an object that PyObject_New or PyType_GenericAlloc has made, and release its type. */
static inline void free_object(void *object) {
    PyTypeObject *type = Py_TYPE(object);
    PyObject_Free(object);
    Py_DECREF(type);
}
#endif
