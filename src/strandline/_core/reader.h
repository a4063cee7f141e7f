/* A reader of the frames of one segment. See reader.c and reader_columns.c. */
#ifndef STRANDLINE_READER_H
#define STRANDLINE_READER_H

#include "core.h"

typedef struct {
    PyObject_HEAD
    PyObject *file;  /* Keeps the descriptor open. */
    PyObject *io;    /* None for calls of the system; another Io in tests. */
    PyObject *topic, *partition;
    PyObject *error; /* The OSError that ended it, or None. */
    int fd;
    uint32_t seed;
    /* The next frame begins at `position` with offset `base`; frames end at `end`. Records
     * before `stop` are wanted; no frame is begun at or behind `pause`. */
    long long position, base, end, stop, pause;
    /* The size that further records may have together; the first may have any. */
    long long bytes_left;
    int is_first;
    char is_full; /* The next record was too large for what was left. */
    bool is_busy;

    char *content; /* What was read, from `content_at` in the file on. */
    size_t length, room;
    int64_t content_at;

    /* The open frame: its records are [offset, frame_stop). */
    int kind; /* 0: none. */
    int64_t offset, frame_stop, timestamp_us;
    Unpacking rows;
    Columns columns;

    struct Gathering *gathering; /* Reused by each call of `columns`; NULL before the first. */
} Reader;

/* A frame with a valid checksum and no flags. */
typedef struct {
    const char *body;
    uint32_t length, count;
    int kind;
    int64_t timestamp_us;
} VerifiedFrame;

/* Verify the next frame; false at the end, before one that Python has to read, or with an error. */
bool reader_look(Reader *reader, VerifiedFrame *frame);
/* Advance past a frame that was verified. */
void reader_pass(Reader *reader, const VerifiedFrame *frame);

/* --- reader_columns.c --- */

PyObject *reader_columns(Reader *reader, PyObject *args);
void gathering_free(struct Gathering *all);
#endif
