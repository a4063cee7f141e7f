/* A reader of the frames of one segment, as its files share it. */
#ifndef STRANDLINE_READER_H
#define STRANDLINE_READER_H

#include "core.h"

typedef struct {
    PyObject_HEAD
    PyObject *file;  /* Keeps the descriptor open. */
    PyObject *io;    /* Reads in place of the system; None for the system itself. */
    PyObject *topic, *partition;
    PyObject *error; /* The OSError that ended it, or None. */
    int fd;
    uint32_t seed;
    /* The next frame begins at `position` with offset `base`; frames end at `end`. Records
     * before `stop` are wanted; no frame is begun at or behind `pause`. */
    long long position, base, end, stop, pause;
    /* How large records may count that are still made, but for the first of all. */
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

    struct Gathering *gathering; /* Its memory is used again; NULL until then. */
} Reader;

/* A frame whose checksum is right, and that has no flags. */
typedef struct {
    const char *body;
    uint32_t length, count;
    int kind;
    int64_t timestamp_us;
} VerifiedFrame;

/* Look at the next frame; false at the end, before one that is Python's, or with an error. */
bool reader_look(Reader *reader, VerifiedFrame *frame);
/* Go on behind a frame that was looked at. */
void reader_pass(Reader *reader, const VerifiedFrame *frame);

/* --- reader_columns.c --- */

PyObject *reader_columns(Reader *reader, PyObject *args);
void gathering_free(struct Gathering *all);
#endif
