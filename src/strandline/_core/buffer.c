/* Bytes that grow. */
#include "core.h"

enum { SMALLEST = 4096, KEPT_MAX = 8 << 20 };

bool buffer_grow(Buffer *buffer, size_t more) {
    size_t room = buffer->room ? buffer->room : SMALLEST;
    while (room - buffer->length < more) {
        if (room > SIZE_MAX / 2) return false;
        room *= 2;
    }
    char *bytes = realloc(buffer->bytes, room);
    if (!bytes) return false;
    buffer->bytes = bytes;
    buffer->room = room;
    return true;
}

void buffer_reset(Buffer *buffer) {
    buffer->length = 0;
    if (buffer->room > KEPT_MAX) {
        free(buffer->bytes);
        buffer->bytes = NULL;
        buffer->room = 0;
    }
}
