/* greet.c - the address, the place of the token, and a command to try */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coved/greet.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "codec/json.h"

#define TEXT_MAX_BYTES (16 * KIB)

enum style { PLAIN, BOLD, DIM, GREEN, RED };

static const char *style(enum style which, bool is_terminal)
{
    static const char *const codes[] = {"\033[0m", "\033[1m", "\033[2m", "\033[32m", "\033[31m"};
    return is_terminal && !getenv("NO_COLOR") ? codes[which] : "";
}

static void say(int fd, const struct strbuf *text)
{
    struct error ignored = {.msg = ""}; /* nobody is left to tell */
    (void)!fd_write_all(fd, text->data, text->len, &ignored);
}

/* --- it is ready ------------------------------------------------------------------------------ */

/* What curl needs beside the path; a certificate of one's own is its own authority. */
static char *curl_options(const struct coved *c)
{
    if (c->listen.path[0])
        return xasprintf("--unix-socket %s ", c->listen.path);
    return c->tls ? xasprintf("--cacert %s ", c->config.tls_cert) : xstrdup("");
}

static void add_words(const struct coved *c, struct strbuf *out)
{
    bool is_terminal = isatty(STDOUT_FILENO);
    const char *bold = style(BOLD, is_terminal), *dim = style(DIM, is_terminal);
    const char *off = style(PLAIN, is_terminal);
    scoped_free char *options = curl_options(c);
    scoped_free char *token =
        c->token_file ? xasprintf("$(cat %s)", c->token_file) : xstrdup("$COVE_TOKEN");
    strbuf_add_fmt(out, "\n  %sCove%s %s is ready at %s%s%s\n\n", bold, off, COVE_VERSION,
                   style(GREEN, is_terminal), c->address, off);
    if (c->listen.path[0])
        strbuf_add_fmt(out, "  %ssocket%s  %s\n", dim, off, c->listen.path);
    if (c->config.public_url)
        strbuf_add_fmt(out, "  %spublic%s  %s\n", dim, off, c->url);
    strbuf_add_fmt(out, "  %stoken%s   %s\n", dim, off,
                   c->token_file ? c->token_file : "the one that you have set");
    strbuf_add_fmt(out,
                   "  %stry%s     curl %s-H \"Authorization: Bearer %s\" \\\n"
                   "            --json '{\"code\": \"print(6 * 7)\"}' %s/execute\n"
                   "  %sstop%s    Ctrl-C, or kill %d\n\n",
                   dim, off, options, token, c->address, dim, off, (int)getppid());
}

static void add_json(const struct coved *c, struct strbuf *out)
{
    scoped_json json_t *answer =
        json_pack("{s:s, s:s, s:o, s:o, s:i}", "url", c->address, "public_url", c->url, "socket",
                  json_text_or_null(c->listen.path[0] ? c->listen.path : NULL), "token_file",
                  json_text_or_null(c->token_file), "pid", (int)getppid());
    json_add(out, answer, JSON_STYLE_COMPACT);
    strbuf_add_char(out, '\n');
}

static void *say_ready(void *text)
{
    struct strbuf *t = text;
    say(STDOUT_FILENO, t);
    strbuf_release(t);
    free(t);
    return NULL;
}

/* Who started us may have stopped reading long ago, and the one after a crash greets as well. A
 * thread that waits for that ends with the process. */
void greet(const struct coved *c)
{
    pthread_t thread;
    sigset_t all, before;
    struct strbuf *text = xcalloc(1, sizeof(*text));
    strbuf_init(text, TEXT_MAX_BYTES);
    if (c->config.json)
        add_json(c, text);
    else
        add_words(c, text);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the loop */
    if (pthread_create(&thread, NULL, say_ready, text) == 0)
        pthread_detach(thread);
    else
        say_ready(text);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* --- it is not -------------------------------------------------------------------------------- */

static void say_failure(const struct error *err, int fd)
{
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, TEXT_MAX_BYTES);
    strbuf_add_fmt(&text, "%scove serve:%s %s\n", style(RED, true), style(PLAIN, true), err->msg);
    if (err->hint[0])
        strbuf_add_fmt(&text, "            %s\n", err->hint);
    say(fd, &text);
}

void greet_failure(const struct coved *c, const struct error *err)
{
    if (c->is_log_terminal || isatty(STDOUT_FILENO))
        say_failure(err, c->is_log_terminal ? STDERR_FILENO : STDOUT_FILENO);
    if (!c->is_log_terminal)
        log_error(&c->log, "the server cannot start", LOG_STR("error", err->msg),
                  LOG_STR("hint", err->hint[0] ? err->hint : NULL));
}
