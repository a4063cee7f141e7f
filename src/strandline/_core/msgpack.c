/* The few types of MessagePack that a row has. */
#include "core.h"

static char *put_big_endian(char *at, uint64_t value, int width) {
    while (width--) *at++ = (char)(value >> (8 * width));
    return at;
}

static char *put_tagged(char *at, unsigned tag, uint64_t value, int width) {
    *at++ = (char)tag;
    return put_big_endian(at, value, width);
}

char *msgpack_put_text_head(char *at, size_t length) {
    if (length < 32) return put_tagged(at, 0xa0 | (unsigned)length, 0, 0);
    if (length < 1 << 8) return put_tagged(at, 0xd9, length, 1);
    if (length < 1 << 16) return put_tagged(at, 0xda, length, 2);
    return put_tagged(at, 0xdb, length, 4);
}

char *msgpack_put_bytes_head(char *at, size_t length) {
    if (length < 1 << 8) return put_tagged(at, 0xc4, length, 1);
    if (length < 1 << 16) return put_tagged(at, 0xc5, length, 2);
    return put_tagged(at, 0xc6, length, 4);
}

char *msgpack_put_array_head(char *at, size_t count) {
    if (count < 16) return put_tagged(at, 0x90 | (unsigned)count, 0, 0);
    if (count < 1 << 16) return put_tagged(at, 0xdc, count, 2);
    return put_tagged(at, 0xdd, count, 4);
}

char *msgpack_put_int(char *at, int64_t value) {
    uint64_t bits = (uint64_t)value;
    if (value >= -32 && value < 128) return put_tagged(at, (byte)value, 0, 0);
    if (value >= 0) {
        if (value < 1 << 8) return put_tagged(at, 0xcc, bits, 1);
        if (value < 1 << 16) return put_tagged(at, 0xcd, bits, 2);
        if (value < 1ll << 32) return put_tagged(at, 0xce, bits, 4);
        return put_tagged(at, 0xcf, bits, 8);
    }
    if (value >= INT8_MIN) return put_tagged(at, 0xd0, bits, 1);
    if (value >= INT16_MIN) return put_tagged(at, 0xd1, bits, 2);
    if (value >= INT32_MIN) return put_tagged(at, 0xd2, bits, 4);
    return put_tagged(at, 0xd3, bits, 8);
}

static size_t left(const Unpacking *in) { return (size_t)(in->end - in->at); }

static bool take_big_endian(Unpacking *in, size_t width, uint64_t *value) {
    if (left(in) < width) return false;
    *value = 0;
    while (width--) *value = *value << 8 | *in->at++;
    return true;
}

bool msgpack_take_nil(Unpacking *in) {
    if (!left(in) || *in->at != 0xc0) return false;
    in->at++;
    return true;
}

bool msgpack_take_array(Unpacking *in, size_t *count) {
    if (!left(in)) return false;
    byte tag = *in->at++;
    uint64_t number = tag & 15;
    if ((tag & 0xf0) != 0x90) {
        size_t width = tag == 0xdc ? 2 : tag == 0xdd ? 4 : 0;
        if (!width || !take_big_endian(in, width, &number)) return false;
    }
    *count = number;
    return true;
}

/* `tag` is that of a length in one byte; the next two are for lengths in two and four bytes. */
static bool take_run(Unpacking *in, byte tag, const byte **content, size_t *length) {
    if (!left(in) || *in->at < tag || *in->at > tag + 2) return false;
    size_t width = (size_t)1 << (*in->at++ - tag);
    uint64_t number;
    if (!take_big_endian(in, width, &number) || left(in) < number) return false;
    *content = in->at;
    *length = number;
    in->at += number;
    return true;
}

bool msgpack_take_text(Unpacking *in, const byte **text, size_t *length) {
    if (!left(in) || (*in->at & 0xe0) != 0xa0) return take_run(in, 0xd9, text, length);
    size_t number = *in->at++ & 31;
    if (left(in) < number) return false;
    *text = in->at;
    *length = number;
    in->at += number;
    return true;
}

bool msgpack_take_bytes(Unpacking *in, const byte **bytes, size_t *length) {
    return take_run(in, 0xc4, bytes, length);
}

bool msgpack_take_int(Unpacking *in, int64_t *value) {
    if (!left(in)) return false;
    byte tag = *in->at++;
    uint64_t bits;
    if (tag < 0x80 || tag >= 0xe0) {
        *value = (int8_t)tag;
        return true;
    }
    if (tag < 0xcc || tag > 0xd3) return false;
    int power = (tag - 0xcc) & 3;
    if (!take_big_endian(in, (size_t)1 << power, &bits)) return false;
    if (tag <= 0xcf) {
        *value = (int64_t)bits;
        return bits <= INT64_MAX;
    }
    *value = power == 0 ? (int8_t)bits
        : power == 1    ? (int16_t)bits
        : power == 2    ? (int32_t)bits
                        : (int64_t)bits;
    return true;
}
