/* curl_library.h - libcurl, loaded only by who needs it
 *
 * With all that it needs it costs 8 MB and 7 ms, more than the rest of the server, so it is not on
 * the link line; and what is linked has OpenSSL inside of it already, which must not mix with the
 * one of libcurl. A process that confines itself loads it before. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <curl/curl.h>

#include "base/error.h"
#include "base/scoped.h"

#define CURL_CALLS(X)                                                                              \
    X(global_init)                                                                                 \
    X(easy_init)                                                                                   \
    X(easy_setopt)                                                                                 \
    X(easy_getinfo)                                                                                \
    X(easy_pause)                                                                                  \
    X(easy_strerror)                                                                               \
    X(easy_cleanup)                                                                                \
    X(multi_init)                                                                                  \
    X(multi_setopt)                                                                                \
    X(multi_add_handle)                                                                            \
    X(multi_remove_handle)                                                                         \
    X(multi_socket_action)                                                                         \
    X(multi_info_read)                                                                             \
    X(multi_assign)                                                                                \
    X(multi_cleanup)                                                                               \
    X(slist_append)                                                                                \
    X(slist_free_all)

struct curl_library {
    void *handle;
/* NOLINTNEXTLINE(bugprone-macro-parentheses): a name is declared */
#define X(name) __typeof__(&curl_##name) name;
    CURL_CALLS(X)
#undef X
};

/* ERROR_UNAVAILABLE, with the package to install, when it is not there. */
MUST_CHECK int curl_library_open(struct curl_library **out, struct error *err);
void curl_library_free(struct curl_library *library); /* it stays in memory: its threads may live */
SCOPED_DEFINE(curl_library)
