/* Whether a lane may write now: it has the partition's lock, and knows where the partition ends. */
#include "lane.h"

/* How often an owner checks its files, as PartitionWriter does. */
static const double OWN_CHECK_S = 0.01;

/* The minimum time for which the lock is kept when another process requests it, and the maximum.
 * After the maximum it is taken for each append for a while, for writers that cannot request it
 * and retry every 2 ms. */
static const double SHARE_S = 0.0005, LEASE_S = 0.02, REST_S = 0.001;
/* It is kept after this many appends, each soon after the previous one. */
enum { RUN_MIN = 4 };
static const double SOON_S = 0.001;

/* Whether the lock file is still in its place, and the head is the end of the partition; false
 * with an exception. */
static bool is_current(Lane *lane, bool *is_current) {
    char tail[TAIL_BYTES];
    *is_current = false;
    if (!lane_lock_in_place(lane, is_current)) return false;
    return !*is_current || (lane_read_tail(lane, tail) && lane_take_tail(lane, tail, is_current));
}

/* --- the lock that processes share --- */

void lane_end_lease(Lane *lane) {
    if (!lane->is_leased) return;
    lane->is_leased = false;
    lease_end(&lane->lease);
}

static void give_up_lock(Lane *lane) {
    if (lane->is_leased) lane_end_lease(lane);
    else lane_unlock(lane);
}

/* Whether the lock was kept since the last append. */
static bool has_kept_lock(Lane *lane) {
    if (!lane->is_leased) return false;
    if (LIKELY(lease_use(&lane->lease))) return true;
    lane_end_lease(lane);
    return false;
}

/* Acquire the lock; LEFT if another process holds it for too long. */
static Step take_lock(Lane *lane) {
    bool is_locked = false, gives_way = lane->has_yielded && lane->map && lane_is_wanted(lane);
    if (!gives_way && !lane_try_lock(lane, &is_locked)) {
        lane_unlock(lane); /* It may have been taken before the exception was raised. */
        return FAILED;
    }
    if (!is_locked && !lane_wait_for_lock(lane)) return LEFT;
    lane->has_yielded = false;
    if (lane->map && lane_is_wanted(lane)) __atomic_store_n(lane_wanted(lane), 0, __ATOMIC_SEQ_CST);
    return DONE;
}

/* Take the lock that processes share, and catch up with what they wrote. */
static Step enter_shared(Lane *lane) {
    bool may_write;
    int64_t next = lane->head.next;
    if (lane->map && !clock_monotonic(lane->clock, &lane->now)) return FAILED;
    if (!has_kept_lock(lane)) {
        Step step = take_lock(lane);
        if (step != DONE) return step;
    }
    if (LIKELY(is_current(lane, &may_write) && may_write)) {
        bool is_soon = lane->now < lane->entered_at + SOON_S && lane->head.next == next;
        lane->run = is_soon ? lane->run + 1 : 0;
        lane->entered_at = lane->now;
        return DONE;
    }
    give_up_lock(lane);
    return PyErr_Occurred() ? FAILED : LEFT;
}

/* Whether to keep the lock of a lease for the next append. */
static bool may_keep(Lane *lane) {
    double had_s = lane->now - lane->leased_at;
    if (had_s < SHARE_S) return true;
    if (lane_is_wanted(lane)) {
        lane->has_yielded = true;
        return false;
    }
    if (had_s < LEASE_S) return true;
    lane->rests_until = lane->now + REST_S;
    return false;
}

/* Keep the lock after an append that has taken it, if more of them are likely to come. */
static bool begin_lease(Lane *lane) {
    if (lane->run < RUN_MIN || lane->now < lane->rests_until) return false;
    lane->leased_at = lane->now;
    lane->is_leased =
        lease_begin(&lane->lease, lane->lock_fd, lane->lock_device, lane->lock_inode);
    return lane->is_leased;
}

static void leave_shared(Lane *lane) {
    bool may_lease = lane->map && lane->is_armed;
    if (may_lease && (lane->is_leased ? may_keep(lane) : begin_lease(lane)))
        lease_keep(&lane->lease);
    else
        give_up_lock(lane);
}

/* Use the lock of an owner; check from time to time that it is still the owner. */
static Step enter_owned(Lane *lane) {
    double now;
    bool may_write;
    if (!clock_monotonic(lane->clock, &now)) return FAILED;
    lane->now = now;
    if (LIKELY(now < lane->check_at)) return DONE;
    /* Python makes these calls in another order. */
    if (lane->io != Py_None || lane->clock != Py_None) return LEFT;
    if (!is_current(lane, &may_write)) return FAILED;
    if (may_write) lane->check_at = now + OWN_CHECK_S;
    return may_write ? DONE : LEFT;
}

Step lane_enter(Lane *lane) { return lane->is_exclusive ? enter_owned(lane) : enter_shared(lane); }

void lane_leave(Lane *lane) {
    if (!lane->is_exclusive) leave_shared(lane);
}
