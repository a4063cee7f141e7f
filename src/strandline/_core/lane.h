/* The fast path of appends to one partition. See lane.c. */
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
    WANTED_AT = 320, /* A word that is not 0 while a process requests the lock. */
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
    /* Unchanged while only frames are written. */
    SAME_BYTES = POSITION_AT - SAME_AT
};

enum { SIGNALS_MS = 50 }; /* How often a waiting thread checks for signals. */

/* The threads and loops of this process that wait for a tail to change. See tail_watch.h. */
typedef struct TailWatch TailWatch;

/* A tail file in shared memory. */
typedef struct TailMap {
    char *page;   /* NULL while there is none. */
    bool is_lost; /* An access failed, mostly as the file was truncated: the page is not valid. */
    struct TailMap *next;
} TailMap;

/* The lock of a partition, kept from one append to the next. */
typedef struct Lease {
    int state;          /* Changed by its lane and by the thread that ends idle ones. */
    int fd;             /* Of the lock file. */
    int64_t uses, seen; /* How many appends have used it, and had when it was last checked. */
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
    /* None for calls of the system; others in tests. */
    PyObject *io, *clock;
    PyObject *fenced;      /* Returns what a fenced writer raises. */
    PyObject *close_lock;   /* Closes a lock file that cannot be unlocked. */
    PyObject *files;        /* Keeps the descriptors open. */
    TailWatch *watch;       /* Notified of each end; NULL if there is none. */
    int segment_fd, tail_fd, lock_fd, holder_fd;
    char *lock_path;
    uint64_t lock_device, lock_inode;
    uint32_t frame_seed, tail_seed, pid;
    int64_t segment_bytes, ahead_bytes, durable, reserved;
    int64_t appends; /* How many appends it has made. */
    double check_at;
    TailMap *map;    /* NULL if the tail is read and written by system calls. */
    double now;      /* When the append began; set if the tail is mapped. */
    double look_at;  /* From then on the lock file is checked again. */
    double touch_at; /* From then on the next end is written by a call, for watchers of the file. */
    Lease lease;     /* If `is_leased`; it may have ended meanwhile. */
    double leased_at, rests_until, entered_at;
    int run;         /* Appends in quick succession, with none of another process between. */
    bool has_touched; /* Whether the last end was written by a call. */
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
    bool has_yielded; /* It has released the lock for a process that requested it. */
} Lane;

/* Done; left to Python, with nothing done; or an exception. */
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
/* Reserve room for a body, and keep other threads out of the lane; NULL without memory. */
char *lane_begin_body(Lane *lane, size_t body_length);
/* Append the body that follows FRAME_HEAD bytes in `frame`; `is_busy` is set. */
Step lane_append_body(Lane *lane, int kind, size_t body_length, uint32_t count, int64_t size_bytes,
                      Placed *placed);
/* What `append` returns to Python. */
PyObject *lane_answer(Step step, const Placed *placed);

/* --- lane_enter.c --- */

/* Acquire the right to append; `lane_leave` releases it. */
Step lane_enter(Lane *lane);
void lane_leave(Lane *lane);
/* Release a lock that is kept between appends. */
void lane_end_lease(Lane *lane);

/* --- lane_lease.c --- */

/* Start a thread that is never joined, and blocks signals, which are for Python's threads. */
bool start_thread(void *(*run)(void *));

/* Begin to keep the lock of this descriptor, in use at first; false if that is impossible. */
bool lease_begin(Lease *lease, int lock_fd, uint64_t device, uint64_t inode);
/* Use it for an append; false if it has ended, or is just being ended. */
bool lease_use(Lease *lease);
/* End the use; the lock is kept for the next append. */
void lease_keep(Lease *lease);
/* Whether the lock is kept and not in use. */
bool lease_is_kept(Lease *lease);
/* Release the lock, unless the lease has ended. */
void lease_end(Lease *lease);
/* End the leases of this process that keep the lock of this file. */
void lease_end_of_file(uint64_t device, uint64_t inode);

/* --- lane_batch.c --- */

/* Append the events of a list as one frame, and set `size_bytes` to their size. */
Step lane_append_events(Lane *lane, PyObject *events, int64_t bytes_max, Placed *placed,
                        int64_t *size_bytes);
PyObject *lane_append_many(Lane *lane, PyObject *args);

/* --- lane_io.c: each returns false with an exception --- */

bool lane_pwrite(Lane *lane, int fd, const char *data, size_t length, int64_t at);
bool lane_pread(Lane *lane, int fd, char *data, size_t length, int64_t at);
/* Releases the interpreter's lock; the caller has set `is_busy`. */
bool lane_pwrite_large(Lane *lane, const char *data, size_t length, int64_t at);
/* Write zeros from `end` on, which is beyond the reserved space, as ReservedSpace does; false if
 * Python has to. Releases the interpreter's lock; the caller has set `is_busy`. */
bool lane_reserve(Lane *lane, int64_t end);
bool lane_try_lock(Lane *lane, bool *is_locked);
/* Request the lock from other processes, and wait a few milliseconds; false if it is not released.
 * Releases the interpreter's lock; the caller has set `is_busy`. */
bool lane_wait_for_lock(Lane *lane);
void lane_unlock(Lane *lane);
/* The word in the mapped tail by which a process requests the lock, and whether one does. */
static inline uint32_t *lane_wanted(const Lane *lane) {
    return (uint32_t *)(void *)(lane->map->page + WANTED_AT);
}
static inline bool lane_is_wanted(const Lane *lane) {
    return __atomic_load_n(lane_wanted(lane), __ATOMIC_RELAXED) != 0;
}
bool lane_lock_in_place(Lane *lane, bool *is_in_place);
bool lane_now(Lane *lane, int64_t *now_us);
double monotonic_s(void);
/* Read this clock, or that of the system if it is None. */
bool clock_monotonic(PyObject *clock, double *now);

/* --- writeback.c --- */

/* Make the system begin to write this range to disk, so that less is left for a later sync. */
void begin_writeback(int fd, int64_t from, int64_t length);

/* --- tail_map.c: guarded by the interpreter's lock --- */

/* NULL where it cannot be mapped. */
TailMap *tail_map_open(int fd);
void tail_map_close(TailMap *map);
/* Install the handler of SIGBUS, also if another one was installed meanwhile. */
void tail_map_guard(void);

/* --- tail_watch.c --- */

extern PyTypeObject *TailWatchType;
extern PyType_Spec tail_watch_spec;
/* Announce where the partition ends; `has_notice` if the tail file was written by a call. */
void tail_watch_announce(TailWatch *watch, const char *end_slot, uint32_t seed, bool has_notice);

/* --- lane_tail.c --- */

/* Map the tail as shared memory, if that is allowed and possible. */
void lane_map_tail(Lane *lane);
/* Close the map if it is lost. */
void lane_keep_map(Lane *lane);
/* Copy the tail. */
bool lane_read_tail(Lane *lane, char *tail);

/* Set `is_current` if only frames were written since; the head is moved to their end. */
bool lane_take_tail(Lane *lane, const char *tail, bool *is_current);
/* Write the end, and check for a fence. */
bool lane_publish_end(Lane *lane);
#endif
