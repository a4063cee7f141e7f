/* GroupCommit: rounds of syncing. One thread at a time syncs, for all waiting threads.
 *
 * It is also the lock and the counters of the coordinator's stage (writes/rounds.py), so that
 * threads that wait here and threads that wait in Python take turns. A thread that waits here
 * leads a round, or blocks until one has ended, without the interpreter's lock: it is `mutex`
 * that guards the fields, and no thread waits for the interpreter's lock while it holds it.
 * Threads are woken after it was released, and need it no more if their round has ended.
 */
#include "group_commit.h"
#include <errno.h>
#include <time.h>

/* How often rounds check that the tail file was not replaced, as the owner of a partition does.
 * Records written to a replaced tail are lost. */
static const double LOOK_S = 0.01;

/* --- with `mutex` held --- */

/* Whether it was woken within this time. */
bool commit_block(GroupCommit *commit, pthread_cond_t *woken, int ms) {
#ifdef __APPLE__
    struct timespec left = {ms / 1000, (long)(ms % 1000) * 1000000};
    return pthread_cond_timedwait_relative_np(woken, &commit->mutex, &left) != ETIMEDOUT;
#else
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    return pthread_cond_timedwait(woken, &commit->mutex, &until) != ETIMEDOUT;
#endif
}

int64_t commit_unlock(GroupCommit *commit) {
    commit->is_busy = false;
    wake_word_change(&commit->changed[0]);
    wake_word_change(&commit->changed[1]);
    pthread_cond_broadcast(&commit->freed);
    return commit->ended;
}

void commit_end_round(GroupCommit *commit) {
    /* Atomic, as threads that were woken read it without `mutex`. */
    __atomic_store_n(&commit->ended, commit->begun, __ATOMIC_RELEASE);
}

/* --- without it --- */

void commit_wake(GroupCommit *commit, int64_t ended) {
    /* The next leader first: the disk is idle until it begins. */
    wake_word_wake(&commit->changed[(ended + 1) & 1], 1);
    wake_word_wake(&commit->changed[ended & 1], WAKE_ALL);
}

bool commit_is_ended(const GroupCommit *commit, int64_t turn) {
    return __atomic_load_n(&commit->ended, __ATOMIC_ACQUIRE) >= turn;
}

/* Sync for all waiting threads; false if Python has to sync. The caller holds `mutex`; it is
 * released on return. */
static bool lead(GroupCommit *commit) {
    commit->is_busy = true;
    /* Before the tail is read: records written from now on belong to the next round. */
    commit->begun++;
    int64_t known = commit->durable, epoch = commit->written_epoch;
    pthread_mutex_unlock(&commit->mutex);
    double start = monotonic_s();
    bool looks = start - commit->looked_at > LOOK_S;
    Synced synced = sync_round(commit->place, known, looks);
    double elapsed_s = monotonic_s() - start;
    pthread_mutex_lock(&commit->mutex);
    if (looks) commit->looked_at = start;
    if (synced.step == DONE) {
        commit->durable = synced.durable;
        commit->durable_epoch = epoch;
        commit->sync_s += elapsed_s;
        commit_end_round(commit);
    } else {
        commit->begun--;
        if (synced.is_sync_lost) commit->error = synced.error;
    }
    int64_t ended = commit_unlock(commit);
    pthread_mutex_unlock(&commit->mutex);
    commit_wake(commit, ended);
    return synced.step == DONE;
}

/* --- waiting --- */

typedef enum { ENDED, NOT_YET, NOT_HERE } Waited;

/* Lead a round, or block until woken; ENDED also if the round only may have ended. */
static Waited take_turn(GroupCommit *commit, int64_t turn) {
    WakeWord *changed = &commit->changed[turn & 1];
    pthread_mutex_lock(&commit->mutex);
    bool is_here = commit->place && !commit->is_closed && !commit->error;
    if (commit->ended < turn && is_here && !commit->is_busy) return lead(commit) ? ENDED : NOT_HERE;
    bool blocks = commit->ended < turn && is_here;
    /* Every change from here on changes this value. */
    uint32_t seen = wake_word_value(changed);
    pthread_mutex_unlock(&commit->mutex);
    if (!blocks) return is_here ? ENDED : NOT_HERE;
    return wake_word_wait(changed, seen, SIGNALS_MS) ? ENDED : NOT_YET;
}

/* Without the interpreter's lock. */
static Waited wait_for_round(GroupCommit *commit, int64_t turn) {
    Waited waited = ENDED;
    __atomic_add_fetch(&commit->waiting, 1, __ATOMIC_RELAXED);
    while (waited == ENDED && !commit_is_ended(commit, turn)) waited = take_turn(commit, turn);
    __atomic_sub_fetch(&commit->waiting, 1, __ATOMIC_RELAXED);
    /* A thread that is woken as its round ends takes no mutex. */
    if (LIKELY(waited == ENDED)) return ENDED;
    pthread_mutex_lock(&commit->mutex);
    /* This thread may have been the one that was woken to lead. */
    bool may_lead = !commit->is_busy;
    int64_t ended = may_lead ? commit_unlock(commit) : 0;
    pthread_mutex_unlock(&commit->mutex);
    if (may_lead) commit_wake(commit, ended);
    return commit_is_ended(commit, turn) ? ENDED : waited;
}

/* Raise the watermark to an epoch. One step to all other threads: no Python code runs. */
static bool raise_mark(PyObject *mark, int64_t epoch) {
    PyObject *value = PyObject_GetAttrString(mark, "value");
    int64_t now = value ? PyLong_AsLongLong(value) : -1;
    Py_XDECREF(value);
    if (now >= epoch) return true;
    PyObject *raised = PyErr_Occurred() ? NULL : PyLong_FromLongLong(epoch);
    bool is_done = raised && PyObject_SetAttrString(mark, "value", raised) == 0;
    Py_XDECREF(raised);
    return is_done;
}

/* Report rounds that were led here to Python, unless it is done; false with an exception. */
static bool report_rounds(GroupCommit *commit) {
    pthread_mutex_lock(&commit->mutex);
    int64_t ended = commit->ended, durable = commit->durable, epoch = commit->durable_epoch;
    bool is_reported = commit->reported >= ended;
    pthread_mutex_unlock(&commit->mutex);
    if (is_reported || !commit->report) return true;
    if (!raise_mark(commit->mark, epoch)) return false;
    PyObject *answer = PyObject_CallFunction(commit->report, "L", (long long)durable);
    Py_XDECREF(answer);
    if (!answer) return false;
    pthread_mutex_lock(&commit->mutex);
    if (commit->reported < ended) commit->reported = ended;
    pthread_mutex_unlock(&commit->mutex);
    return true;
}

int commit_wait(GroupCommit *commit, int64_t turn) {
    if (!commit->place || commit->place->io != Py_None) return 0;
    for (;;) {
        Waited waited;
        /* The interpreter's lock is released: `mutex` guards the fields, and the leader holds the
         * lock that is needed to replace `place`. */
        Py_BEGIN_ALLOW_THREADS
        waited = wait_for_round(commit, turn);
        Py_END_ALLOW_THREADS
        if (!report_rounds(commit)) return -1;
        if (waited != NOT_YET) return waited == ENDED;
        if (PyErr_CheckSignals()) return -1;
    }
}

int64_t commit_turn(GroupCommit *commit, int64_t epoch) {
    pthread_mutex_lock(&commit->mutex);
    if (commit->written_epoch < epoch) commit->written_epoch = epoch;
    int64_t turn = commit->begun + 1;
    pthread_mutex_unlock(&commit->mutex);
    return turn;
}
