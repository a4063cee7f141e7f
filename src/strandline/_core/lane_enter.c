/* Whether a lane may write now: it has the partition's lock, and knows where the partition ends. */
#include "lane.h"

/* How long an owner goes on without a look at its files, as PartitionWriter does. */
static const double OWN_CHECK_S = 0.01;

/* Whether the lock is still the one that counts, and the head where the partition ends; false
 * with an exception. */
static bool is_current(Lane *lane, bool *is_current) {
    char tail[TAIL_BYTES];
    *is_current = false;
    if (!lane_lock_in_place(lane, is_current)) return false;
    return !*is_current || (lane_read_tail(lane, tail) && lane_take_tail(lane, tail, is_current));
}

/* Take the lock that processes share, and catch up with what they wrote. */
static Step enter_shared(Lane *lane) {
    bool is_locked, may_write;
    if (!lane_try_lock(lane, &is_locked)) {
        lane_unlock(lane); /* It may have been taken before the exception was raised. */
        return FAILED;
    }
    if (!is_locked && !lane_wait_for_lock(lane)) return LEFT;
    if (is_current(lane, &may_write) && may_write) return DONE;
    lane_unlock(lane);
    return PyErr_Occurred() ? FAILED : LEFT;
}

/* Go on with the lock of an owner; now and then look whether it still is one. */
static Step enter_owned(Lane *lane) {
    double now;
    bool may_write;
    if (!clock_monotonic(lane->clock, &now)) return FAILED;
    if (LIKELY(now < lane->check_at)) return DONE;
    /* Python makes these calls in another order. */
    if (lane->io != Py_None || lane->clock != Py_None) return LEFT;
    if (!is_current(lane, &may_write)) return FAILED;
    if (may_write) lane->check_at = now + OWN_CHECK_S;
    return may_write ? DONE : LEFT;
}

Step lane_enter(Lane *lane) { return lane->is_exclusive ? enter_owned(lane) : enter_shared(lane); }

void lane_leave(Lane *lane) {
    if (!lane->is_exclusive) lane_unlock(lane);
}
