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
    int notices, bell; /* Descriptors of inotify and of an eventfd; -1 while there are none. */
    int loop_bells[LOOPS_MAX]; /* Of event loops that wait, too; -1 for none. */
    int followers;     /* How many there are; guarded by the interpreter's lock. */
    int number;        /* Of the watch in `notices`. */
    int tail_fd;
    char *path;
    uint64_t device, inode;
    uint32_t seed;
    char same[SAME_BYTES], low[LOW_BYTES]; /* What stays while nothing but frames is written. */
    char end_slot[END_BYTES]; /* As it was seen last. */
    int64_t aim;              /* How often it was aimed. */
    int64_t end, position;    /* Where the partition ends, as far as it is known. */
    double again_at;          /* When to look once more without a notice; 0 for not at all. */
    double place_at;          /* From when on the tail's place is looked at again. */
    int waiting, loops;       /* Read by appends without the mutex. */
    bool has_leader;          /* A thread blocks for notices, on behalf of all. */
    bool is_odd;              /* There is something in the tail that Python has to look at. */
};

/* How long writers only store ends after they have written one: lane_tail.c. */
static const double TOUCH_S = 0.0002;

/* --- for who holds `mutex` --- */

/* Look, and wake all if anything has changed; `loop` is the one that looks, or -1. */
void tail_look(TailWatch *watch, int loop);
/* Wake all but one loop; threads only, where those who wait for notices have one. */
void tail_wake_all(TailWatch *watch, bool has_notice, int loop);
/* Have notices of this file; those of the one before end. */
bool tail_begin_notices(TailWatch *watch, const char *path);
void tail_close_notices(TailWatch *watch);
/* Take the notices, if there are any: the look that follows sees what they were about. */
bool tail_take_notices(TailWatch *watch);
bool tail_drain(int fd);
int tail_new_bell(void);

/* What came of a wait. */
typedef enum { GROWN, WOKEN, TIME_UP, SIGNALS, ODD } Waited;

/* Wait until the partition of `aim` ends behind `next`; then its end is in `end` and `position`.
 * SIGNALS: look for signals, and wait again. Called without the interpreter's lock. */
Waited tail_watch_wait(TailWatch *watch, int64_t aim, int64_t next, double until, bool *is_woken,
                       int64_t *end, int64_t *position);
/* Whether it ends behind `next`, without a wait. */
Waited tail_watch_look(TailWatch *watch, int64_t aim, int64_t next, int64_t *end, int64_t *position);
/* Have the wait that `is_woken` was given to return WOKEN, or the next one. */
void tail_watch_wake(TailWatch *watch, bool *is_woken);
/* Count a follower; the last one that is gone closes what is open. */
void tail_watch_join(TailWatch *watch);
void tail_watch_part(TailWatch *watch);
#endif
