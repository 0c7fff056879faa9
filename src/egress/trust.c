/* trust.c - a file of certificates or two, read once */
/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/trust.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/strbuf.h"
#include "http/tls.h"

#define FILE_MAX_BYTES (16 * MIB)
#define READ_BYTES     (64 * KIB)

/* Where systems have them. */
static const char *const system_files[] = {
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
};

struct trust {
    int system_fd, more_fd; /* -1: there is none, or it was read */
    struct tls *client;     /* NULL: not needed yet */
};

struct trust *trust_new(void)
{
    struct trust *t = xcalloc(1, sizeof(*t));
    *t = (struct trust){.system_fd = -1, .more_fd = -1};
    for (size_t i = 0; i < ARRAY_LEN(system_files) && t->system_fd < 0; i++)
        t->system_fd = open(system_files[i], O_RDONLY | O_CLOEXEC);
    BUG_ON(!OPENSSL_init_ssl(0, NULL)); /* reads its configuration while it can */
    return t;
}

void trust_free(struct trust *t)
{
    if (!t)
        return;
    scoped_close_fd(&t->system_fd);
    scoped_close_fd(&t->more_fd);
    tls_free(t->client);
    free(t);
}

bool trust_add(struct trust *t, int fd)
{
    scoped_fd int owned = fd;
    if (t->more_fd >= 0 || t->client)
        return false;
    t->more_fd = take_fd(&owned);
    return true;
}

/* How many there were. From the beginning, wherever others have left the file. */
static size_t load(X509_STORE *store, int fd)
{
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, FILE_MAX_BYTES);
    size_t count = 0;
    ssize_t n;
    char bytes[READ_BYTES];
    while ((n = pread(fd, bytes, sizeof(bytes), (off_t)text.len)) > 0 && !text.overflow)
        strbuf_add(&text, bytes, (size_t)n);
    BIO *memory = BIO_new_mem_buf(strbuf_str(&text), (int)text.len);
    BUG_ON(!memory);
    for (X509 *one; (one = PEM_read_bio_X509(memory, NULL, NULL, NULL)); count++) {
        X509_STORE_add_cert(store, one); /* one that is there already is no matter */
        X509_free(one);
    }
    ERR_clear_error();
    BIO_free(memory);
    return count;
}

struct tls *trust_client(struct trust *t, struct error *err)
{
    size_t count = 0;
    int *const fds[] = {&t->system_fd, &t->more_fd};
    if (t->client)
        return t->client;
    X509_STORE *store = X509_STORE_new();
    BUG_ON(!store);
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        if (*fds[i] >= 0)
            count += load(store, *fds[i]);
    }
    if (count == 0)
        error_set(err, ERROR_UNAVAILABLE,
                  "this machine trusts no certificate; install "
                  "ca-certificates, or set egress-ca");
    else if (tls_open_client(&t->client, store, err) < 0)
        t->client = NULL;
    X509_STORE_free(store);
    return t->client;
}
