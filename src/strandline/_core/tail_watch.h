/* Waiting until a tail changes. See tail_watch.c. */
#ifndef STRANDLINE_TAIL_WATCH_H
#define STRANDLINE_TAIL_WATCH_H
#include "lane.h"
#include <pthread.h>

enum { LOW_BYTES = CRC_AT - LOW_AT };

enum { LOOPS_MAX = 4 }; /* How many event loops may wait at one tail. */

struct TailWatch {
    PyObject_HEAD
    PyObject *file; /* Keeps `tail_fd` open; NULL until it is aimed. Changed under both locks. */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    /* From here on guarded by `mutex`. */
    int notices;                  /* Descriptor of inotify; -1 while there is none. */
    int wake_fd;                  /* An eventfd that wakes the leader; -1 as well. */
    int loop_wake_fds[LOOPS_MAX]; /* An eventfd for each event loop that waits; -1 for none. */
    int followers;     /* How many there are; guarded by the interpreter's lock. */
    int number;        /* Of the watch in `notices`. */
    int tail_fd;
    char *path;
    uint64_t device, inode;
    uint32_t seed;
    char same[SAME_BYTES], low[LOW_BYTES]; /* Unchanged while only frames are written. */
    char end_slot[END_BYTES]; /* As it was seen last. */
    int64_t aim;              /* How often it was aimed. */
    int64_t end, position;    /* Where the partition ends, as far as it is known. */
    double again_at;          /* When to look again without a notice; 0 for never. */
    double place_at;          /* From then on it is checked that the file was not replaced. */
    int waiting, loops;       /* Read by appends without the mutex. */
    bool has_leader;          /* A thread blocks for notices, for all threads. */
    bool is_odd;              /* The tail has a change that Python has to handle. */
};

/* After a write of an end, writers only store further ones for this long: lane_tail.c. */
static const double TOUCH_S = 0.0002;

/* --- with `mutex` held --- */

/* Look, and wake all if anything has changed; `loop` is the one that looks, or -1. */
void tail_look(TailWatch *watch, int loop);
/* Wake all but one loop; with `has_notice` only threads: the leader and loops get the notice. */
void tail_wake_all(TailWatch *watch, bool has_notice, int loop);
/* Watch this file, and no longer the one before. */
bool tail_begin_notices(TailWatch *watch, const char *path);
void tail_close_notices(TailWatch *watch);
/* Drain the notices; whether there were any. The caller looks at the tail afterwards. */
bool tail_take_notices(TailWatch *watch);
bool tail_drain(int fd);
int tail_new_wake_fd(void);

/* The outcome of a wait. */
typedef enum { GROWN, WOKEN, TIME_UP, SIGNALS, ODD } Waited;

/* Wait until the partition of `aim` ends behind `next`; then its end is in `end` and `position`.
 * SIGNALS: check for signals, and wait again. Called without the interpreter's lock. */
Waited tail_watch_wait(TailWatch *watch, int64_t aim, int64_t next, double until, bool *is_woken,
                       int64_t *end, int64_t *position);
/* Do the same without waiting. */
Waited tail_watch_look(TailWatch *watch, int64_t aim, int64_t next, int64_t *end, int64_t *position);
/* Make the wait with this `is_woken`, or else the next one, return WOKEN. */
void tail_watch_wake(TailWatch *watch, bool *is_woken);
/* Count followers; with the last one the notices are closed. */
void tail_watch_add_follower(TailWatch *watch);
void tail_watch_remove_follower(TailWatch *watch);
#endif
