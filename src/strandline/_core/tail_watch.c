/* TailWatch: threads of this process wait until the tail of one partition changes.
 *
 * One of the waiting threads, the leader, blocks for notices of the tail file; the others block
 * on a condition. The leader reads the tail after each notice, and wakes the others. An append by
 * a lane of this process passes the new end of the partition directly. `mutex` guards the fields;
 * it is held while the tail is read, and no thread waits for the interpreter's lock while it
 * holds `mutex`. See design 0130 for why no wake-up is lost.
 */
#include "tail_watch.h"
#include <errno.h>
#include <poll.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/eventfd.h>
#include <sys/inotify.h>
#endif

enum {
    /* How many tails of a process may have notices: a user has 128 inotify instances by default. */
    NOTICES_MAX = 8,
    NOTICES_BYTES = 4096,
    LOOKS_MAX = 50 /* How often a tail is read again that is being written. */
};
/* How often it is checked that the tail file was not replaced. */
static const double PLACE_S = 0.01;
/* How many watches have notices; guarded by the interpreter's lock. */
static int notices_open;

/* --- looking, with `mutex` held --- */

static bool has_fence(const char *tail) {
    static const char none[FENCE_BYTES];
    return memcmp(tail + FENCE_AT, none, FENCE_BYTES) != 0;
}

/* Read the tail; false if it is fenced, or cannot be read whole. */
static bool read_whole(const TailWatch *watch, char *tail) {
    for (int tries = 0; tries < LOOKS_MAX; tries++) {
        if (pread(watch->tail_fd, tail, TAIL_BYTES, 0) != TAIL_BYTES || has_fence(tail)) return false;
        if (!memcmp(tail, watch->end_slot, END_BYTES)) return true;
        if (read_u32(tail) == crc32c(watch->seed, tail + 4, END_BYTES - 4)) return true;
    }
    return false;
}

/* Whether the tail file was not replaced; checked every PLACE_S, as by an owner. */
static bool is_in_place(TailWatch *watch) {
    double now = monotonic_s();
    if (now < watch->place_at) return true;
    watch->place_at = now + PLACE_S;
    struct stat found;
    return !lstat(watch->path, &found) && (uint64_t)found.st_dev == watch->device
        && (uint64_t)found.st_ino == watch->inode;
}

/* Take the new end of the partition; false if anything else has changed. */
static bool take_end(TailWatch *watch, const char *slot) {
    if (memcmp(slot + SAME_AT, watch->same, SAME_BYTES)
        || memcmp(slot + LOW_AT, watch->low, LOW_BYTES) || read_i64(slot + NEXT_AT) < watch->end)
        return false;
    memcpy(watch->end_slot, slot, END_BYTES);
    watch->end = read_i64(slot + NEXT_AT);
    watch->position = read_i64(slot + POSITION_AT);
    return true;
}

static void signal_fd(int wake_fd);

static void wake_loops(TailWatch *watch, int but) {
    for (int each = 0; each < LOOPS_MAX; each++)
        if (each != but && watch->loop_wake_fds[each] >= 0) signal_fd(watch->loop_wake_fds[each]);
}

void tail_wake_all(TailWatch *watch, bool has_notice, int loop) {
    pthread_cond_broadcast(&watch->changed);
    if (has_notice) return;
    if (watch->has_leader) signal_fd(watch->wake_fd);
    wake_loops(watch, loop);
}

void tail_look(TailWatch *watch, int loop) {
    char tail[TAIL_BYTES];
    int64_t before = watch->end;
    bool was_odd = watch->is_odd;
    watch->is_odd = !(read_whole(watch, tail) && is_in_place(watch) && take_end(watch, tail));
    if (watch->end != before || watch->is_odd != was_odd) tail_wake_all(watch, false, loop);
}

/* --- notices --- */

#ifdef __linux__
void tail_close_notices(TailWatch *watch) {
    if (watch->notices < 0) return;
    close(watch->notices);
    close(watch->wake_fd);
    watch->notices = watch->wake_fd = watch->number = -1;
    notices_open--;
}

static bool open_notices(TailWatch *watch) {
    if (watch->notices >= 0) return true;
    if (notices_open >= NOTICES_MAX) return false;
    watch->notices = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    watch->wake_fd = watch->notices < 0 ? -1 : eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    notices_open++;
    if (watch->wake_fd >= 0) return true;
    if (watch->notices >= 0) close(watch->notices);
    watch->notices = -1;
    notices_open--;
    return false;
}

bool tail_begin_notices(TailWatch *watch, const char *path) {
    if (!open_notices(watch)) return false;
    int number = inotify_add_watch(watch->notices, path, IN_MODIFY | IN_ATTRIB | IN_MOVE_SELF
                                   | IN_DELETE_SELF | IN_DONT_FOLLOW);
    if (number >= 0 && watch->number >= 0 && number != watch->number)
        inotify_rm_watch(watch->notices, watch->number);
    watch->number = number;
    return number >= 0;
}

static void signal_fd(int wake_fd) {
    const uint64_t once = 1;
    /* It fails only if the counter is at its maximum, so that the descriptor is readable. */
    if (write(wake_fd, &once, sizeof once) < 0) return;
}

bool tail_drain(int fd) {
    char content[NOTICES_BYTES];
    return read(fd, content, sizeof content) > 0;
}

bool tail_take_notices(TailWatch *watch) {
    char content[NOTICES_BYTES];
    struct inotify_event notice;
    ssize_t length = read(watch->notices, content, sizeof content);
    for (ssize_t at = 0; at < length; at += (ssize_t)(sizeof notice + notice.len)) {
        memcpy(&notice, content + at, sizeof notice);
        /* More than a write: it may have been moved, removed or replaced. */
        if (notice.mask != IN_MODIFY) watch->place_at = 0;
    }
    return length > 0;
}

int tail_new_wake_fd(void) { return eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC); }

/* Block for a notice, or until then, and look; whether a signal came. Releases `mutex`. */
static bool lead(TailWatch *watch, double until) {
    if (watch->again_at && watch->again_at < until) until = watch->again_at;
    double left_s = until - monotonic_s();
    if (left_s < 0) left_s = 0;
    struct timespec left = {(time_t)left_s, (long)((left_s - (double)(time_t)left_s) * 1e9)};
    struct pollfd each[2] = {{watch->notices, POLLIN, 0}, {watch->wake_fd, POLLIN, 0}};
    watch->has_leader = true;
    pthread_mutex_unlock(&watch->mutex);
    int ready = ppoll(each, 2, &left, NULL);
    bool is_signal = ready < 0;
    pthread_mutex_lock(&watch->mutex);
    watch->has_leader = false;
    if (ready > 0 && each[1].revents) tail_drain(watch->wake_fd);
    double now = monotonic_s();
    if (ready > 0 && each[0].revents) {
        /* Loops wait for the same notices. */
        if (tail_take_notices(watch)) wake_loops(watch, -1);
        watch->again_at = now + TOUCH_S;
        tail_look(watch, -1);
    } else if (watch->again_at && now >= watch->again_at) {
        watch->again_at = 0;
        tail_look(watch, -1);
    }
    return is_signal;
}
#else
void tail_close_notices(TailWatch *watch) { (void)watch; }
bool tail_begin_notices(TailWatch *watch, const char *path) {
    (void)watch, (void)path, (void)notices_open;
    return false;
}
static void signal_fd(int wake_fd) { (void)wake_fd; }
int tail_new_wake_fd(void) { return -1; }
bool tail_drain(int fd) { return (void)fd, false; }
bool tail_take_notices(TailWatch *watch) { return (void)watch, false; }
static bool lead(TailWatch *watch, double until) {
    (void)until;
    watch->is_odd = true;
    return false;
}
#endif

/* --- waiting --- */

/* Block until woken, until the deadline, or until signals have to be checked. */
static void block(TailWatch *watch, double until) {
    double slice = monotonic_s() + SIGNALS_MS / 1e3;
    if (slice < until) until = slice;
    struct timespec then = {(time_t)until, (long)((until - (double)(time_t)until) * 1e9)};
    pthread_cond_timedwait(&watch->changed, &watch->mutex, &then);
}

/* The present state; TIME_UP if there is nothing new. */
static Waited present(TailWatch *watch, int64_t aim, int64_t next, int64_t *end, int64_t *position) {
    if (watch->aim != aim || watch->is_odd || watch->notices < 0) return ODD;
    if (watch->end <= next) return TIME_UP;
    *end = watch->end;
    *position = watch->position;
    return GROWN;
}

Waited tail_watch_look(TailWatch *watch, int64_t aim, int64_t next, int64_t *end, int64_t *position) {
    pthread_mutex_lock(&watch->mutex);
    Waited waited = present(watch, aim, next, end, position);
    if (waited == TIME_UP) {
        tail_look(watch, -1);
        waited = present(watch, aim, next, end, position);
    }
    pthread_mutex_unlock(&watch->mutex);
    return waited;
}

Waited tail_watch_wait(TailWatch *watch, int64_t aim, int64_t next, double until, bool *is_woken,
                       int64_t *end, int64_t *position) {
    Waited waited = TIME_UP;
    bool is_interrupted = false;
    pthread_mutex_lock(&watch->mutex);
    __atomic_store_n(&watch->waiting, watch->waiting + 1, __ATOMIC_RELAXED);
    double begun = monotonic_s(), now = begun;
    for (;;) {
        waited = present(watch, aim, next, end, position);
        if (waited != TIME_UP) break;
        if (*is_woken) {
            *is_woken = false;
            waited = WOKEN;
            break;
        }
        if (now >= until) break;
        if (is_interrupted || now - begun > SIGNALS_MS / 1e3) {
            waited = SIGNALS;
            break;
        }
        if (watch->has_leader) block(watch, until);
        else is_interrupted = lead(watch, until);
        now = monotonic_s();
    }
    __atomic_store_n(&watch->waiting, watch->waiting - 1, __ATOMIC_RELAXED);
    /* Another thread has to lead now. */
    if (watch->waiting && !watch->has_leader) pthread_cond_signal(&watch->changed);
    pthread_mutex_unlock(&watch->mutex);
    return waited;
}

void tail_watch_wake(TailWatch *watch, bool *is_woken) {
    pthread_mutex_lock(&watch->mutex);
    *is_woken = true;
    pthread_cond_broadcast(&watch->changed);
    if (watch->has_leader) signal_fd(watch->wake_fd);
    pthread_mutex_unlock(&watch->mutex);
}

void tail_watch_announce(TailWatch *watch, const char *slot, uint32_t seed, bool has_notice) {
    if (!__atomic_load_n(&watch->waiting, __ATOMIC_RELAXED)
        && !__atomic_load_n(&watch->loops, __ATOMIC_RELAXED))
        return;
    pthread_mutex_lock(&watch->mutex);
    int64_t before = watch->end;
    bool is_ours = seed == watch->seed && !watch->is_odd && read_i64(slot + NEXT_AT) > before;
    if (is_ours && take_end(watch, slot)) tail_wake_all(watch, has_notice, -1);
    pthread_mutex_unlock(&watch->mutex);
}
