/* Rounds of syncing that threads share. See group_commit.c and sync_round.c. */
#ifndef STRANDLINE_GROUP_COMMIT_H
#define STRANDLINE_GROUP_COMMIT_H
#include "lane.h"
#include "wake_word.h"

/* The files of a partition to sync. Immutable. */
typedef struct {
    PyObject *files; /* Keeps the descriptors open. */
    PyObject *io;    /* None for calls of the system; another Io in tests. */
    int segment_fd, tail_fd;
    char *tail_path;
    uint64_t tail_device, tail_inode;
    uint32_t tail_seed;
    char same[SAME_BYTES];
} SyncPlace;

/* The outcome of a round. */
typedef struct {
    Step step;         /* LEFT: Python has to sync. */
    bool is_sync_lost; /* The sync itself has failed: a later one proves nothing. */
    int error;         /* Its errno, if no exception is set. */
    int64_t durable;   /* Everything before this offset is durable, if it is DONE. */
} Synced;

/* Make everything up to the end in the tail durable, unless `known` is as far. Without an `io` it
 * runs without the interpreter's lock and sets no exception. With `looks` it checks that the tail
 * file was not replaced. */
Synced sync_round(const SyncPlace *place, int64_t known, bool looks);

typedef struct {
    PyObject_HEAD
    PyObject *report; /* Called with the durable mark. NULL until `follow`. */
    PyObject *mark;   /* Its `value` is the last durable epoch. NULL until `follow`. */
    SyncPlace *place; /* NULL until Python has synced. Only the holder of the lock replaces it. */
    pthread_mutex_t mutex;
    /* A thread that waits for a round blocks on the word of its parity: threads wait for two
     * rounds at most. Changed with `mutex` held, after the fields that the threads check. */
    WakeWord changed[2];
    pthread_cond_t freed; /* For threads that want the lock. */
    int waiting;          /* Atomic: how many threads wait for a round. */
    /* From here on guarded by `mutex`; `ended` is also read without it. */
    int64_t begun, ended, reported;
    int64_t durable;                 /* An offset. */
    int64_t written_epoch, durable_epoch;
    double sync_s;
    double looked_at; /* When a round last checked that the tail was not replaced. */
    int error;
    bool is_busy, is_closed;
} GroupCommit;

extern PyTypeObject *GroupCommitType;
extern PyType_Spec group_commit_spec;

/* --- group_commit.c --- */

/* Return the round that makes durable what was written before this call, after `epoch`. */
int64_t commit_turn(GroupCommit *commit, int64_t epoch);
bool commit_is_ended(const GroupCommit *commit, int64_t turn);
/* Return once the round has ended: 1; 0 if Python has to sync; -1 with an exception.
 * The interpreter's lock is released meanwhile. */
int commit_wait(GroupCommit *commit, int64_t turn);

/* With `mutex` held: block until woken, for `ms` at most; end the round that has begun; release the
 * lock, and return the last round that has ended, for `commit_wake`. */
bool commit_block(GroupCommit *commit, pthread_cond_t *woken, int ms);
void commit_end_round(GroupCommit *commit);
int64_t commit_unlock(GroupCommit *commit);
/* After the lock and `mutex` were released: wake the threads whose round has ended, and one of
 * the others, to lead the next. */
void commit_wake(GroupCommit *commit, int64_t ended);
#endif
