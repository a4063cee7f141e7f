/* Leases: the lock of a shared partition, kept from one append to the next. See design 0121.
 *
 * A lane that keeps its lock releases it when another process requests it, after a maximum time,
 * and when Python enters the partition. A thread of this file releases locks that no append has
 * used for a while, since no further append may come. It calls no Python, and no thread waits for
 * the interpreter's lock while it holds `mutex`.
 */
#include "lane.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

/* How often the thread checks: a lease that was not used between two checks ends. After so many
 * checks without a lease it blocks until one begins. */
enum { LOOK_NS = 1000000, LOOKS_MAX = 20 };
/* The state of a lease. USED: an append uses it, and no other thread may end it. */
enum { ENDED, KEPT, USED };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t has_begun = PTHREAD_COND_INITIALIZER;
/* From here on guarded by `mutex`: the leases that have not ended, and the thread's state. */
static Lease *leases;
static bool has_thread, is_blocked, is_watching_forks;

/* Remove it from the list, with `mutex` held. */
static void forget(Lease *lease) {
    Lease **at = &leases;
    while (*at != lease) at = &(*at)->next;
    *at = lease->next;
    close(lease->fd);
}

static void release(Lease *lease) {
    flock(lease->fd, LOCK_UN);
    forget(lease);
}

/* End the kept leases for which `is_due` holds. */
static void end_those(bool (*is_due)(Lease *, const void *), const void *about) {
    for (Lease *lease = leases, *next; lease; lease = next) {
        int kept = KEPT;
        next = lease->next;
        if (is_due(lease, about)
            && __atomic_compare_exchange_n(&lease->state, &kept, ENDED, false, __ATOMIC_SEQ_CST,
                                           __ATOMIC_SEQ_CST))
            release(lease);
    }
}

static bool is_idle(Lease *lease, const void *unused) {
    (void)unused;
    int64_t uses = __atomic_load_n(&lease->uses, __ATOMIC_RELAXED);
    bool is_idle = uses == lease->seen;
    lease->seen = uses;
    return is_idle;
}

static bool is_of_file(Lease *lease, const void *about) {
    const Lease *wanted = about;
    return lease->device == wanted->device && lease->inode == wanted->inode;
}

static void *end_idle(void *unused) {
    const struct timespec pause = {0, LOOK_NS};
    for (int looks = 0;; looks++) {
        pthread_mutex_lock(&mutex);
        end_those(is_idle, NULL);
        if (leases) looks = 0;
        is_blocked = looks > LOOKS_MAX;
        while (is_blocked) pthread_cond_wait(&has_begun, &mutex);
        pthread_mutex_unlock(&mutex);
        nanosleep(&pause, NULL);
    }
    return unused;
}

/* --- forks: a child has neither the thread nor the locks --- */

static void before_fork(void) { pthread_mutex_lock(&mutex); }
static void after_fork(void) { pthread_mutex_unlock(&mutex); }

static void after_fork_in_child(void) {
    while (leases) {
        leases->state = ENDED;
        forget(leases); /* The lock is the parent's. */
    }
    has_thread = is_blocked = false;
    pthread_cond_init(&has_begun, NULL);
    pthread_mutex_init(&mutex, NULL);
}

bool start_thread(void *(*run)(void *)) {
    sigset_t all, before;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool is_started = !pthread_create(&thread, NULL, run, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (is_started) pthread_detach(thread);
    return is_started;
}

/* With `mutex` held. */
static bool have_thread(void) {
    if (!is_watching_forks && pthread_atfork(before_fork, after_fork, after_fork_in_child))
        return false;
    is_watching_forks = true;
    if (!has_thread) has_thread = start_thread(end_idle);
    return has_thread;
}

/* --- for the lane that has it --- */

bool lease_begin(Lease *lease, int lock_fd, uint64_t device, uint64_t inode) {
    /* A duplicate: garbage collection may close the other descriptor. */
    int fd = fcntl(lock_fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) return false;
    pthread_mutex_lock(&mutex);
    bool may_begin = have_thread();
    if (may_begin) {
        *lease = (Lease){.state = USED, .fd = fd, .device = device, .inode = inode, .next = leases};
        leases = lease;
        if (is_blocked) pthread_cond_signal(&has_begun);
        is_blocked = false;
    }
    pthread_mutex_unlock(&mutex);
    if (!may_begin) close(fd);
    return may_begin;
}

bool lease_use(Lease *lease) {
    int kept = KEPT;
    return __atomic_compare_exchange_n(&lease->state, &kept, USED, false, __ATOMIC_SEQ_CST,
                                       __ATOMIC_SEQ_CST);
}

void lease_keep(Lease *lease) {
    __atomic_store_n(&lease->uses, lease->uses + 1, __ATOMIC_RELAXED);
    __atomic_store_n(&lease->state, KEPT, __ATOMIC_SEQ_CST);
}

bool lease_is_kept(Lease *lease) {
    return __atomic_load_n(&lease->state, __ATOMIC_SEQ_CST) == KEPT;
}

void lease_end(Lease *lease) {
    pthread_mutex_lock(&mutex);
    /* Now no other thread is in the middle of ending it. */
    if (lease->state != ENDED) release(lease);
    lease->state = ENDED;
    pthread_mutex_unlock(&mutex);
}

void lease_end_of_file(uint64_t device, uint64_t inode) {
    Lease wanted = {.device = device, .inode = inode};
    pthread_mutex_lock(&mutex);
    end_those(is_of_file, &wanted);
    pthread_mutex_unlock(&mutex);
}
