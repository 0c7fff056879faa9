/* base64.c - four characters, three bytes */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/base64.h"

#include "base/macros.h"
#include "base/strbuf.h"

#define CHUNK_GROUPS 256 /* groups of 4 characters that are added in one go */

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void encode_group(const uint8_t *in, size_t len, char out[4])
{
    uint32_t bits = (uint32_t)in[0] << 16 | (len > 1 ? (uint32_t)in[1] << 8 : 0) |
                    (len > 2 ? (uint32_t)in[2] : 0);
    out[0] = alphabet[bits >> 18];
    out[1] = alphabet[bits >> 12 & 63];
    out[2] = len > 1 ? alphabet[bits >> 6 & 63] : '=';
    out[3] = len > 2 ? alphabet[bits & 63] : '=';
}

void base64_add(struct strbuf *out, const void *data, size_t len)
{
    const uint8_t *in = data;
    char chunk[4 * CHUNK_GROUPS];
    size_t used = 0;
    while (len > 0) {
        size_t n = MIN(len, (size_t)3);
        encode_group(in, n, chunk + used);
        used += 4;
        in += n;
        len -= n;
        if (used == sizeof(chunk) || len == 0) {
            strbuf_add(out, chunk, used);
            used = 0;
        }
    }
}

/* Each range of the alphabet in a row; -1 for what is not in it. */
static int digit(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Decodes `count` characters (2 to 4) of a group into count - 1 bytes. */
static bool decode_group(const char *text, size_t count, uint8_t *out)
{
    uint32_t bits = 0;
    for (size_t i = 0; i < count; i++) {
        int value = digit(text[i]);
        if (value < 0)
            return false;
        bits |= (uint32_t)value << (18 - 6 * i);
    }
    for (size_t i = 0; i + 1 < count; i++)
        out[i] = (uint8_t)(bits >> (16 - 8 * i));
    uint32_t unused = count == 4 ? 0 : bits & (count == 3 ? 0xffu : 0xffffu);
    return unused == 0;
}

bool base64_decode(const char *text, size_t len, uint8_t *out, size_t *out_len)
{
    if (len % 4 != 0)
        return false;
    size_t have = 0;
    for (size_t at = 0; at < len; at += 4) {
        size_t count = 4;
        if (at + 4 == len && text[at + 3] == '=')
            count = text[at + 2] == '=' ? 2 : 3;
        if (!decode_group(text + at, count, out + have))
            return false;
        have += count - 1;
    }
    *out_len = have;
    return true;
}
