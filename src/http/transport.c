/* transport.c - the one place that knows whether there is TLS */
/* SPDX-License-Identifier: Apache-2.0 */
#include "http/transport.h"

#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/macros.h"
#include "http/tls.h"

void transport_open(struct transport *t, int fd, struct tls *tls)
{
    *t = (struct transport){.fd = fd};
    if (tls)
        t->ssl = tls_accept(tls, &t->fd);
}

void transport_close(struct transport *t)
{
    SSL_free(t->ssl);
    t->ssl = NULL;
    if (t->fd >= 0)
        close(t->fd);
    t->fd = -1;
}

static ssize_t plain_answer(ssize_t n)
{
    if (n >= 0)
        return n;
    return errno == EAGAIN || errno == EINTR ? TRANSPORT_AGAIN : TRANSPORT_GONE;
}

/* What OpenSSL means by an answer that is not positive. */
static ssize_t tls_answer(struct transport *t, int answer, bool is_read)
{
    switch (SSL_get_error(t->ssl, answer)) {
    case SSL_ERROR_WANT_READ:
        t->write_wants_read = !is_read;
        return TRANSPORT_AGAIN;
    case SSL_ERROR_WANT_WRITE:
        t->read_wants_write = is_read;
        return TRANSPORT_AGAIN;
    case SSL_ERROR_ZERO_RETURN:
        return is_read ? 0 : TRANSPORT_GONE;
    default:
        return TRANSPORT_GONE;
    }
}

static ssize_t tls_read(struct transport *t, void *data, size_t len)
{
    ERR_clear_error();
    t->read_wants_write = false;
    int n = SSL_read(t->ssl, data, (int)MIN(len, (size_t)INT_MAX));
    return n > 0 ? n : tls_answer(t, n, true);
}

static ssize_t tls_write(struct transport *t, const struct iovec *pieces, int count)
{
    ssize_t total = 0;
    t->write_wants_read = false;
    for (int i = 0; i < count; i++) {
        ERR_clear_error();
        int n = SSL_write(t->ssl, pieces[i].iov_base, (int)MIN(pieces[i].iov_len, (size_t)INT_MAX));
        if (n <= 0) {
            ssize_t answer = tls_answer(t, n, false);
            return total > 0 ? total : answer;
        }
        total += n;
        if ((size_t)n < pieces[i].iov_len)
            break;
    }
    return total;
}

void transport_secure(struct transport *t, SSL *ssl)
{
    BUG_ON(t->ssl);
    t->ssl = ssl;
}

int transport_shake_hands(struct transport *t)
{
    ERR_clear_error();
    t->read_wants_write = false;
    int n = SSL_do_handshake(t->ssl);
    if (n == 1)
        return 0;
    ssize_t answer = tls_answer(t, n, true);
    return answer == TRANSPORT_AGAIN ? TRANSPORT_AGAIN : TRANSPORT_GONE;
}

const char *transport_trouble(const struct transport *t)
{
    long verified = t->ssl ? SSL_get_verify_result(t->ssl) : X509_V_OK;
    if (verified != X509_V_OK)
        return X509_verify_cert_error_string(verified);
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());
    return reason ? reason : "the connection broke";
}

const char *transport_server_name(const struct transport *t)
{
    return SSL_get_servername(t->ssl, TLSEXT_NAMETYPE_host_name);
}

ssize_t transport_read(struct transport *t, void *data, size_t len)
{
    return t->ssl ? tls_read(t, data, len) : plain_answer(recv(t->fd, data, len, 0));
}

ssize_t transport_write(struct transport *t, const struct iovec *pieces, int count)
{
    if (t->ssl)
        return tls_write(t, pieces, count);
    if (count == 1)
        return plain_answer(send(t->fd, pieces[0].iov_base, pieces[0].iov_len, MSG_NOSIGNAL));
    struct msghdr message = {.msg_iov = (struct iovec *)pieces, .msg_iovlen = (size_t)count};
    return plain_answer(sendmsg(t->fd, &message, MSG_NOSIGNAL));
}

bool transport_has_more(const struct transport *t)
{
    return t->ssl && SSL_has_pending(t->ssl);
}

void transport_end(struct transport *t)
{
    if (t->ssl && SSL_is_init_finished(t->ssl)) {
        ERR_clear_error();
        SSL_shutdown(t->ssl);
    }
    shutdown(t->fd, SHUT_WR);
}
