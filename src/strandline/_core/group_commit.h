/* Rounds of syncing that threads share. See group_commit.c and sync_round.c. */
#ifndef STRANDLINE_GROUP_COMMIT_H
#define STRANDLINE_GROUP_COMMIT_H
#include "lane.h"
#include "wake_word.h"

/* Where a partition is synced. Not changed once it is made. */
typedef struct {
    PyObject *files; /* Keeps the descriptors open. */
    PyObject *io;    /* None, or what does the work in place of the system, in tests. */
    int segment_fd, tail_fd;
    char *tail_path;
    uint64_t tail_device, tail_inode;
    uint32_t tail_seed;
    char same[SAME_BYTES];
} SyncPlace;

/* What came of a round. */
typedef struct {
    Step step;         /* LEFT: Python has to sync. */
    bool is_sync_lost; /* The sync itself has failed: no later one counts. */
    int error;         /* Its errno, where no exception is set. */
    int64_t durable;   /* Everything before this offset is durable, if it is DONE. */
} Synced;

/* Make durable what the tail says is written, unless `known` says that it is. Without an `io`
 * it runs without the interpreter's lock and sets no exception. `looks` at whether the tail is
 * still in its place. */
Synced sync_round(const SyncPlace *place, int64_t known, bool looks);

typedef struct {
    PyObject_HEAD
    PyObject *tell;   /* Called with the end of what is durable. NULL until `follow`. */
    PyObject *mark;   /* Its `value` is the last epoch that is durable. NULL as well. */
    SyncPlace *place; /* NULL until Python has synced. Replaced by the holder of the lock only. */
    pthread_mutex_t mutex;
    /* Those who wait for a round block on the one of its parity: there are no more than two
     * rounds that are waited for. They change with `mutex` held, after what they tell of. */
    WakeWord changed[2];
    pthread_cond_t freed; /* For those who want the lock. */
    int waiting;          /* Atomic: how many wait for a round. */
    /* From here on guarded by `mutex`; `ended` is also read without it. */
    int64_t begun, ended, told;
    int64_t durable;                 /* An offset. */
    int64_t written_epoch, durable_epoch;
    double sync_s;
    double looked_at; /* When a round has last looked at the tail's place. */
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

/* For who holds `mutex`: block for a while, whether or not it is woken; end the round that has
 * begun; let the lock go, and return the last round that has ended, for `commit_wake`. */
bool commit_block(GroupCommit *commit, pthread_cond_t *woken, int ms);
void commit_end_round(GroupCommit *commit);
int64_t commit_let_go(GroupCommit *commit);
/* For who let it go and has released `mutex`: wake those whose round has ended, and one of those
 * who still wait, to lead the next. */
void commit_wake(GroupCommit *commit, int64_t ended);
#endif
