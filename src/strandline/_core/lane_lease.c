/* Leases: the lock of a shared partition, kept from one append to the next. See design 0121.
 *
 * A lane that keeps its lock gives it up when another process asks for it, when it has had it
 * for long, and when Python enters the partition. A thread of this file gives up what no
 * append has used for a while, since none may ever come. It calls no Python, and `mutex` is
 * never held while anything waits for the interpreter's lock.
 */
#include "lane.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

/* How often the thread looks: a lease that was not used between two looks ends. After so many
 * looks at none it blocks until there is one. */
enum { LOOK_NS = 1000000, LOOKS_MAX = 20 };
/* What a lease is. USED: an append has it, and no other thread may end it. */
enum { ENDED, KEPT, USED };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t has_begun = PTHREAD_COND_INITIALIZER;
/* From here on guarded by `mutex`: those that have not ended, and what the thread is at. */
static Lease *leases;
static bool has_thread, is_asleep, is_watching_forks;

/* Take it off the list, with `mutex` held. */
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

/* End those that are kept and for which this holds. */
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
        is_asleep = looks > LOOKS_MAX;
        while (is_asleep) pthread_cond_wait(&has_begun, &mutex);
        pthread_mutex_unlock(&mutex);
        nanosleep(&pause, NULL);
    }
    return unused;
}

/* --- forks: a child has neither the thread nor any lock --- */

static void before_fork(void) { pthread_mutex_lock(&mutex); }
static void after_fork(void) { pthread_mutex_unlock(&mutex); }

static void after_fork_in_child(void) {
    while (leases) {
        leases->state = ENDED;
        forget(leases); /* The lock is the parent's. */
    }
    has_thread = is_asleep = false;
    pthread_cond_init(&has_begun, NULL);
    pthread_mutex_init(&mutex, NULL);
}

/* Have the thread, with `mutex` held; it takes no signals, which are for the interpreter's. */
static bool start_thread(void) {
    if (!is_watching_forks && pthread_atfork(before_fork, after_fork, after_fork_in_child))
        return false;
    is_watching_forks = true;
    sigset_t all, before;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    has_thread = !pthread_create(&thread, NULL, end_idle, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return has_thread && !pthread_detach(thread);
}

/* --- for the lane that has it --- */

bool lease_begin(Lease *lease, int lock_fd, uint64_t device, uint64_t inode) {
    /* A descriptor of its own: the other may be closed by who collects garbage. */
    int fd = fcntl(lock_fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) return false;
    pthread_mutex_lock(&mutex);
    bool may_begin = has_thread || start_thread();
    if (may_begin) {
        *lease = (Lease){.state = USED, .fd = fd, .device = device, .inode = inode, .next = leases};
        leases = lease;
        if (is_asleep) pthread_cond_signal(&has_begun);
        is_asleep = false;
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
