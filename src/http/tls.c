/* tls.c - OpenSSL, set up once for each certificate, and once for all hosts that we speak to
 *
 * The BIO is our own: recv() and send() with MSG_NOSIGNAL, since OpenSSL's would raise SIGPIPE when
 * the peer is gone. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "http/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <sys/socket.h>

#include "base/memory.h"

struct tls {
    SSL_CTX *context;
    BIO_METHOD *method;
};

static int fd_of(BIO *bio)
{
    return *(const int *)BIO_get_data(bio);
}

static int bio_read(BIO *bio, char *data, int len)
{
    ssize_t n = recv(fd_of(bio), data, (size_t)len, 0);
    BIO_clear_retry_flags(bio);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_read(bio);
    return (int)n;
}

static int bio_write(BIO *bio, const char *data, int len)
{
    ssize_t n = send(fd_of(bio), data, (size_t)len, MSG_NOSIGNAL);
    BIO_clear_retry_flags(bio);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_write(bio);
    return (int)n;
}

static long bio_control(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH; /* nothing is held back; the rest is not asked of a socket */
}

static BIO_METHOD *make_method(void)
{
    BIO_METHOD *method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "cove socket");
    BUG_ON(!method || !BIO_meth_set_read(method, bio_read) ||
           !BIO_meth_set_write(method, bio_write) || !BIO_meth_set_ctrl(method, bio_control));
    return method;
}

static const unsigned char http_1_1[] = "\x08http/1.1";

static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                           const unsigned char *offered, unsigned int len, void *arg)
{
    unsigned char *chosen;
    (void)ssl;
    (void)arg;
    if (SSL_select_next_proto(&chosen, out_len, http_1_1, sizeof(http_1_1) - 1, offered, len) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

static int error_openssl(struct error *err, const char *what, const char *path)
{
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());
    error_set(err, ERROR_INVALID, "%s '%s': %s", what, path, reason ? reason : "unknown error");
    ERR_clear_error();
    return -1;
}

static int load(SSL_CTX *context, const char *cert_path, const char *key_path, struct error *err)
{
    ERR_clear_error();
    if (SSL_CTX_use_certificate_chain_file(context, cert_path) != 1)
        return error_openssl(err, "read certificate", cert_path);
    if (SSL_CTX_use_PrivateKey_file(context, key_path, SSL_FILETYPE_PEM) != 1)
        return error_openssl(err, "read key", key_path);
    if (SSL_CTX_check_private_key(context) != 1)
        return error_openssl(err, "match certificate with key", key_path);
    return 0;
}

static struct tls *make(const SSL_METHOD *method, uint64_t options, struct error *err)
{
    struct tls *tls = xcalloc(1, sizeof(*tls));
    tls->context = SSL_CTX_new(method);
    if (!tls->context) {
        free(tls);
        error_set(err, ERROR_INTERNAL, "cannot set up TLS");
        return NULL;
    }
    tls->method = make_method();
    SSL_CTX_set_min_proto_version(tls->context, TLS1_2_VERSION);
    SSL_CTX_set_options(tls->context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | options);
    SSL_CTX_set_mode(tls->context, SSL_MODE_ENABLE_PARTIAL_WRITE |
                                       SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                       SSL_MODE_RELEASE_BUFFERS);
    /* Tickets suffice to resume; a cache in memory would grow with each client. */
    SSL_CTX_set_session_cache_mode(tls->context, SSL_SESS_CACHE_OFF);
    return tls;
}

static struct tls *make_server(struct error *err)
{
    struct tls *tls = make(TLS_server_method(),
                           SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_IGNORE_UNEXPECTED_EOF, err);
    if (tls)
        SSL_CTX_set_alpn_select_cb(tls->context, choose_protocol, NULL);
    return tls;
}

int tls_open(struct tls **out, const char *cert_path, const char *key_path, struct error *err)
{
    scoped(tls) struct tls *tls = make_server(err);
    if (!tls || load(tls->context, cert_path, key_path, err) < 0)
        return -1;
    *out = take_ptr(&tls);
    return 0;
}

int tls_open_with(struct tls **out, X509 *certificate, EVP_PKEY *key, struct error *err)
{
    scoped(tls) struct tls *tls = make_server(err);
    if (!tls)
        return -1;
    ERR_clear_error();
    if (SSL_CTX_use_certificate(tls->context, certificate) != 1 ||
        SSL_CTX_use_PrivateKey(tls->context, key) != 1)
        return error_openssl(err, "use certificate", "of a host");
    *out = take_ptr(&tls);
    return 0;
}

int tls_open_client(struct tls **out, X509_STORE *trusted, struct error *err)
{
    scoped(tls) struct tls *tls = make(TLS_client_method(), 0, err);
    if (!tls)
        return -1;
    SSL_CTX_set1_cert_store(tls->context, trusted);
    SSL_CTX_set_verify(tls->context, SSL_VERIFY_PEER, NULL);
    /* 0 is success, for this one */
    BUG_ON(SSL_CTX_set_alpn_protos(tls->context, http_1_1, sizeof(http_1_1) - 1));
    *out = take_ptr(&tls);
    return 0;
}

void tls_free(struct tls *tls)
{
    if (!tls)
        return;
    SSL_CTX_free(tls->context);
    BIO_meth_free(tls->method);
    free(tls);
}

static SSL *open_on(struct tls *tls, const int *fd)
{
    SSL *ssl = SSL_new(tls->context);
    BIO *bio = BIO_new(tls->method);
    BUG_ON(!ssl || !bio); /* out of memory */
    BIO_set_data(bio, (void *)fd);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl, bio, bio);
    return ssl;
}

SSL *tls_accept(struct tls *tls, const int *fd)
{
    SSL *ssl = open_on(tls, fd);
    SSL_set_accept_state(ssl);
    return ssl;
}

SSL *tls_connect(struct tls *tls, const int *fd, const char *host, bool is_address)
{
    SSL *ssl = open_on(tls, fd);
    X509_VERIFY_PARAM *wanted = SSL_get0_param(ssl);
    X509_VERIFY_PARAM_set_hostflags(wanted, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    BUG_ON(is_address ? !X509_VERIFY_PARAM_set1_ip_asc(wanted, host)
                      : !X509_VERIFY_PARAM_set1_host(wanted, host, 0) ||
                            !SSL_set_tlsext_host_name(ssl, host));
    SSL_set_connect_state(ssl);
    return ssl;
}
