/* The tail: where the partition ends now, for every process that looks. */
#include "lane.h"

/* Where the fields of the first slot are. Between 4 and 32: magic, version, generation of the
 * manifest, boot, epoch and segment. */
enum {
    SAME_AT = 4,
    POSITION_AT = 32,
    NEXT_AT = 40,
    LAST_US_AT = 48,
    LOW_AT = 56,
    CRC_AT = 64,
    PID_AT = 68,
    SIZE_AT = 72,
    IS_FAILED_AT = DURABLE_AT + 6,
    DURABLE_NEXT_AT = DURABLE_AT + 20
};

static bool is_sealed(const Lane *lane, const char *slot, size_t length) {
    return !memcmp(slot + 4, "\xf5T", 2)
        && read_u32(slot) == crc32c(lane->tail_seed, slot + 4, length - 4);
}

static bool is_fenced(const char *fence) {
    static const char none[FENCE_BYTES];
    return memcmp(fence, none, FENCE_BYTES) != 0;
}

/* Take over how far it is durable; false if a sync has failed, or the slot is being written. */
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

bool lane_tell_end(Lane *lane) {
    char *slot = lane->end, fence[FENCE_BYTES];
    write_i64(slot + POSITION_AT, lane->head.position);
    write_i64(slot + NEXT_AT, lane->head.next);
    write_i64(slot + LAST_US_AT, lane->head.last_us);
    write_u32(slot + CRC_AT, lane->head.crc);
    write_u32(slot + PID_AT, lane->pid);
    write_i64(slot + SIZE_AT, lane->head.size_bytes);
    write_u32(slot, crc32c(lane->tail_seed, slot + 4, END_BYTES - 4));
    if (!lane_pwrite(lane, lane->tail_fd, slot, END_BYTES, 0)) return false;
    if (!lane_pread(lane, lane->tail_fd, fence, FENCE_BYTES, FENCE_AT)) return false;
    if (LIKELY(!is_fenced(fence))) return true;
    PyObject *error = PyObject_CallFunctionObjArgs(lane->fenced, NULL);
    if (error) PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_XDECREF(error);
    return false;
}
