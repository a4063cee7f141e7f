/* The tail: publishes where the partition ends to all processes. */
#include "lane.h"
#include <errno.h>

/* For this long after a write of a mapped tail, further ends are only stored in memory: watchers of
 * the file are notified of writes, and look again after this time (watching.py). */
static const double TOUCH_S = 0.0002;

enum { IS_FAILED_AT = DURABLE_AT + 6, DURABLE_NEXT_AT = DURABLE_AT + 20 };

static bool is_sealed(const Lane *lane, const char *slot, size_t length) {
    return !memcmp(slot + 4, "\xf5T", 2)
        && read_u32(slot) == crc32c(lane->tail_seed, slot + 4, length - 4);
}

static bool is_fenced(const char *fence) {
    static const char none[FENCE_BYTES];
    return memcmp(fence, none, FENCE_BYTES) != 0;
}

/* Read the durable mark; false if a sync has failed, or the slot is being written. */
static bool take_durable(Lane *lane, const char *tail) {
    const char *slot = tail + DURABLE_AT;
    if (!memcmp(slot, lane->durable_slot, DURABLE_BYTES)) return true;
    if (!is_sealed(lane, slot, DURABLE_BYTES) || tail[IS_FAILED_AT] || tail[IS_FAILED_AT + 1])
        return false;
    memcpy(lane->durable_slot, slot, DURABLE_BYTES);
    lane->durable = read_i64(tail + DURABLE_NEXT_AT);
    return true;
}

bool lane_take_tail(Lane *lane, const char *tail, bool *is_current) {
    *is_current = false;
    if (is_fenced(tail + FENCE_AT) || !take_durable(lane, tail)) return true;
    if (LIKELY(!memcmp(tail, lane->end, END_BYTES))) {
        *is_current = true;
        return true;
    }
    bool is_same_segment = is_sealed(lane, tail, END_BYTES)
        && !memcmp(tail + SAME_AT, lane->end + SAME_AT, POSITION_AT - SAME_AT)
        && !memcmp(tail + LOW_AT, lane->end + LOW_AT, CRC_AT - LOW_AT)
        && read_i64(tail + NEXT_AT) >= lane->head.next; /* Else it is an older copy. */
    if (!is_same_segment) return true;
    if (read_u32(tail + PID_AT) != lane->pid) {
        if (lane->holder_fd < 0) return true;
        if (!lane_pwrite(lane, lane->holder_fd, lane->holder, HOLDER_BYTES, 0)) return false;
    }
    lane->head.position = read_i64(tail + POSITION_AT);
    lane->head.next = read_i64(tail + NEXT_AT);
    lane->head.last_us = read_i64(tail + LAST_US_AT);
    lane->head.crc = read_u32(tail + CRC_AT);
    lane->head.size_bytes = read_i64(tail + SIZE_AT);
    memcpy(lane->end, tail, END_BYTES);
    lane->others_wrote = true;
    *is_current = true;
    return true;
}

void lane_map_tail(Lane *lane) {
    tail_map_close(lane->map);
    lane->map = lane->may_map && lane->io == Py_None && lane->clock == Py_None
        ? tail_map_open(lane->tail_fd) : NULL;
    lane->touch_at = 0;
}

void lane_keep_map(Lane *lane) {
    if (!lane->map) return;
    if (!lane->map->is_lost) {
        tail_map_guard();
        return;
    }
    tail_map_close(lane->map);
    lane->map = NULL;
}

bool lane_read_tail(Lane *lane, char *tail) {
    if (!lane->map) return lane_pread(lane, lane->tail_fd, tail, TAIL_BYTES, 0);
    /* If it is lost, these are zeros, which are no valid slot. */
    memcpy(tail, lane->map->page, TAIL_BYTES);
    return true;
}

/* Store the end in the tail. Readers verify its checksum, so bytes may arrive in any order. */
static bool put_end(Lane *lane, const char *slot) {
    double now;
    lane->has_touched = true;
    if (!lane->map) return lane_pwrite(lane, lane->tail_fd, slot, END_BYTES, 0);
    if (lane->now >= lane->touch_at) {
        lane->touch_at = lane->now + TOUCH_S;
        return lane_pwrite(lane, lane->tail_fd, slot, END_BYTES, 0);
    }
    /* The frame has to be visible before the end that leads to it. */
    __atomic_thread_fence(__ATOMIC_RELEASE);
    memcpy(lane->map->page, slot, END_BYTES);
    if (!clock_monotonic(lane->clock, &now)) return false;
    lane->has_touched = now >= lane->touch_at;
    if (LIKELY(!lane->has_touched)) return true;
    /* The process was stopped until after the second look of watchers: notify them again. */
    return lane_pwrite(lane, lane->tail_fd, slot, END_BYTES, 0);
}

/* Read the fence after the end is visible: a process that fences reads the end afterwards. */
static bool get_fence(Lane *lane, char *fence) {
    if (!lane->map) return lane_pread(lane, lane->tail_fd, fence, FENCE_BYTES, FENCE_AT);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    memcpy(fence, lane->map->page + FENCE_AT, FENCE_BYTES);
    if (LIKELY(!__atomic_load_n(&lane->map->is_lost, __ATOMIC_ACQUIRE))) return true;
    errno = EIO;
    PyErr_SetFromErrno(PyExc_OSError);
    return false;
}

bool lane_publish_end(Lane *lane) {
    char *slot = lane->end, fence[FENCE_BYTES];
    write_i64(slot + POSITION_AT, lane->head.position);
    write_i64(slot + NEXT_AT, lane->head.next);
    write_i64(slot + LAST_US_AT, lane->head.last_us);
    write_u32(slot + CRC_AT, lane->head.crc);
    write_u32(slot + PID_AT, lane->pid);
    write_i64(slot + SIZE_AT, lane->head.size_bytes);
    write_u32(slot, crc32c(lane->tail_seed, slot + 4, END_BYTES - 4));
    if (!put_end(lane, slot)) return false;
    if (!get_fence(lane, fence)) return false;
    if (LIKELY(!is_fenced(fence))) {
        if (lane->watch) tail_watch_announce(lane->watch, slot, lane->tail_seed, lane->has_touched);
        return true;
    }
    PyObject *error = PyObject_CallFunctionObjArgs(lane->fenced, NULL);
    if (error) PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_XDECREF(error);
    return false;
}
