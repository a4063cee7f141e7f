/* The write side of one partition, as far as it is common. See lane.c. */
#ifndef STRANDLINE_LANE_H
#define STRANDLINE_LANE_H
#include "core.h"
#include <stdio.h>

/* The tail file: three slots. See docs/reference/file-format.md. */
enum {
    END_BYTES = 80,
    DURABLE_AT = 128,
    DURABLE_BYTES = 48,
    FENCE_AT = 256,
    FENCE_BYTES = 28,
    WANTED_AT = 320, /* A word that is not 0 while a process asks for the lock. */
    TAIL_BYTES = 384,
    HOLDER_BYTES = 21
};

/* Where the fields of the first slot are. Between 4 and 32: magic, version, generation of the
 * manifest, boot, epoch and segment. */
enum {
    SAME_AT = 4,
    POSITION_AT = 32,
    NEXT_AT = 40,
    LAST_US_AT = 48,
    LOW_AT = 56,
    CRC_AT = 64,
    PID_AT = 68,
    SIZE_AT = 72,
    /* What stays as long as nothing but frames is written. */
    SAME_BYTES = POSITION_AT - SAME_AT
};

enum { SIGNALS_MS = 50 }; /* How long a wait goes on without a look for signals. */

/* Those of this process who wait for a tail to change. See tail_watch.h. */
typedef struct TailWatch TailWatch;

/* A tail file in shared memory. */
typedef struct TailMap {
    char *page;   /* NULL while there is none. */
    bool is_lost; /* The file was truncated or replaced: the page holds nothing valid. */
    struct TailMap *next;
} TailMap;

/* The lock of a partition, kept from one append to the next. */
typedef struct Lease {
    int state;          /* Changed by its lane and by the thread that ends idle ones. */
    int fd;             /* Of the lock file. */
    int64_t uses, seen; /* How many appends had it, and how many had when it was looked at. */
    uint64_t device, inode;
    struct Lease *next;
} Lease;

/* Where the next frame goes. */
typedef struct {
    int64_t next, position, last_us, size_bytes;
    uint32_t crc;
} Head;

typedef struct {
    PyObject_HEAD
    /* What does the work in place of the system, in tests; None for the system itself. */
    PyObject *io, *clock;
    PyObject *fenced;      /* Returns what a fenced writer raises. */
    PyObject *let_lock_go;  /* Closes a lock file that cannot be unlocked. */
    PyObject *files;        /* Keeps the descriptors open. */
    TailWatch *watch;       /* Told of each end; NULL where there is none. */
    int segment_fd, tail_fd, lock_fd, holder_fd;
    char *lock_path;
    uint64_t lock_device, lock_inode;
    uint32_t frame_seed, tail_seed, pid;
    int64_t segment_bytes, ahead_bytes, durable, reserved;
    int64_t appends; /* How many it has made. */
    double check_at;
    TailMap *map;    /* NULL where the tail is read and written by system calls. */
    double now;      /* When the append has begun, where the tail is mapped. */
    double look_at;  /* Until when the lock file need not be looked at. */
    double touch_at; /* From when on the next end is written, for those who watch the file. */
    Lease lease;     /* If `is_leased`; it may have ended meanwhile. */
    double leased_at, rests_until, entered_at;
    int run;         /* Appends that followed on each other, with none of another process. */
    bool has_touched; /* The last end was. */
    Head head;
    char end[END_BYTES], durable_slot[DURABLE_BYTES], holder[HOLDER_BYTES + 1];
    Buffer frame;
    int64_t frame_at; /* Where the last frame was written; its size is `frame.length`. */
    bool is_exclusive;
    bool may_map; /* Whether the tail may be shared memory. */
    bool is_closed;
    bool is_armed;  /* It has the head, and may append. */
    bool is_owed;   /* It had the head, and Python has not taken it back yet. */
    bool is_held;   /* Writes are queued in Python: no append may overtake them. */
    bool is_busy;   /* A thread writes without the interpreter's lock. */
    bool is_broken; /* A write has failed: the files may hold any part of it. */
    bool others_wrote;
    bool is_leased;
    bool has_yielded; /* It has given the lock up for a process that asked for it. */
} Lane;

/* Done, left to Python with nothing done, or an exception. */
typedef enum { DONE, LEFT, FAILED } Step;
/* Where an append went. */
typedef struct {
    int64_t offset, timestamp_us;
} Placed;

extern PyTypeObject *LaneType;
extern PyType_Spec lane_spec;

/* --- lane.c --- */

/* Whether it may append now. */
static inline bool lane_is_free(const Lane *lane) {
    return lane->is_armed && !lane->is_held && !lane->is_busy;
}
Step lane_append_event(Lane *lane, Event *event, int64_t bytes_max, Placed *placed);
/* Have room for a body, and keep other threads out of the lane; NULL where there is no memory. */
char *lane_begin_body(Lane *lane, size_t body_length);
/* Append the body that stands behind FRAME_HEAD bytes in `frame`; `is_busy` is set. */
Step lane_append_body(Lane *lane, int kind, size_t body_length, uint32_t count, int64_t size_bytes,
                      Placed *placed);
/* What `append` returns to Python. */
PyObject *lane_answer(Step step, const Placed *placed);

/* --- lane_enter.c --- */

/* Have the right to write where the partition ends; `lane_leave` gives it up. */
Step lane_enter(Lane *lane);
void lane_leave(Lane *lane);
/* Keep the lock no longer. */
void lane_end_lease(Lane *lane);

/* --- lane_lease.c --- */

/* Keep the lock that was taken by this descriptor, in use at first; false if that cannot be. */
bool lease_begin(Lease *lease, int lock_fd, uint64_t device, uint64_t inode);
/* Have it for an append; false if it has ended, or is just being ended. */
bool lease_use(Lease *lease);
/* Let it be until the next append. */
void lease_keep(Lease *lease);
/* Whether it waits for the next append. */
bool lease_is_kept(Lease *lease);
/* Release the lock, unless that was done. */
void lease_end(Lease *lease);
/* End those of this process that keep the lock of this file. */
void lease_end_of_file(uint64_t device, uint64_t inode);

/* --- lane_batch.c --- */

/* Append the events of a list as one frame, and say how large they count. */
Step lane_append_events(Lane *lane, PyObject *events, int64_t bytes_max, Placed *placed,
                        int64_t *size_bytes);
PyObject *lane_append_many(Lane *lane, PyObject *args);

/* --- lane_io.c: each returns false with an exception --- */

bool lane_pwrite(Lane *lane, int fd, const char *data, size_t length, int64_t at);
bool lane_pread(Lane *lane, int fd, char *data, size_t length, int64_t at);
/* Lets other threads run; the caller has set `is_busy`. */
bool lane_pwrite_large(Lane *lane, const char *data, size_t length, int64_t at);
/* Have zeros behind `end`, which is beyond those there are, as ReservedSpace has them; false where
 * Python has to reserve it. Lets other threads run; the caller has set `is_busy`. */
bool lane_reserve(Lane *lane, int64_t end);
/* Have the system begin to store what was written, so that a later sync finds little left. Lets
 * other threads run; the caller has set `is_busy`. */
void lane_start_writeback(Lane *lane, int64_t from, int64_t to);
bool lane_try_lock(Lane *lane, bool *is_locked);
/* Ask other processes for the lock, and wait a little; false if it cannot be had then. Lets
 * other threads run, too; the caller has set `is_busy`. */
bool lane_wait_for_lock(Lane *lane);
void lane_unlock(Lane *lane);
/* The word in the mapped tail with which a process asks for the lock, and whether one does. */
static inline uint32_t *lane_wanted(const Lane *lane) {
    return (uint32_t *)(void *)(lane->map->page + WANTED_AT);
}
static inline bool lane_is_wanted(const Lane *lane) {
    return __atomic_load_n(lane_wanted(lane), __ATOMIC_RELAXED) != 0;
}
bool lane_lock_in_place(Lane *lane, bool *is_in_place);
bool lane_now(Lane *lane, int64_t *now_us);
double monotonic_s(void);
/* By this clock, or the system's if it is None. */
bool clock_monotonic(PyObject *clock, double *now);

/* --- tail_map.c: guarded by the interpreter's lock --- */

/* NULL where it cannot be mapped. */
TailMap *tail_map_open(int fd);
void tail_map_close(TailMap *map);
/* Have SIGBUS handled here, also if another handler was set meanwhile. */
void tail_map_guard(void);

/* --- tail_watch.c --- */

extern PyTypeObject *TailWatchType;
extern PyType_Spec tail_watch_spec;
/* Say where the partition ends now; `has_notice` if the tail file was written. */
void tail_watch_tell(TailWatch *watch, const char *end_slot, uint32_t seed, bool has_notice);

/* --- lane_tail.c --- */

/* Have the tail of this descriptor as shared memory, if it may be. */
void lane_map_tail(Lane *lane);
/* Go on without a map that is lost. */
void lane_keep_map(Lane *lane);
/* Copy the tail. */
bool lane_read_tail(Lane *lane, char *tail);

/* Whether nothing but frames was written since; then the head is where they end. */
bool lane_take_tail(Lane *lane, const char *tail, bool *is_current);
/* Write the end, and look for a fence. */
bool lane_tell_end(Lane *lane);
#endif
