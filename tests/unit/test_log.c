/* test_log.c - one valid JSON object per line, whatever is logged */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "check.h"
#include "codec/json.h"

/* A datagram socket shows each write() as one message. */
struct fixture {
    struct log log;
    int pair[2];
    char line[LOG_LINE_MAX_BYTES + 1];
};

static void fixture_init(struct fixture *f, enum log_level level)
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, f->pair), 0);
    f->log = (struct log){.fd = f->pair[0], .level = level};
}

static void fixture_release(struct fixture *f)
{
    close(f->pair[0]);
    close(f->pair[1]);
}

/* The next line as a new value; NULL when nothing was written. */
static json_t *next_line(struct fixture *f)
{
    static const struct json_limits limits = {.max_bytes = LOG_LINE_MAX_BYTES};
    ssize_t n = read(f->pair[1], f->line, sizeof(f->line) - 1);
    if (n < 0)
        return NULL;
    f->line[n] = '\0';
    assert_true(n > 0 && (size_t)n <= LOG_LINE_MAX_BYTES);
    assert_ptr_equal(strchr(f->line, '\n'), f->line + n - 1);
    for (ssize_t i = 0; i < n - 1; i++)
        assert_true((unsigned char)f->line[i] >= 0x20 && f->line[i] != 0x7f);
    json_t *value = NULL;
    struct error err;
    assert_int_equal(json_parse(&value, f->line, (size_t)n, &limits, &err), 0);
    return value;
}

static const char *get(const json_t *line, const char *key)
{
    const char *text = json_string_value(json_object_get(line, key));
    return text ? text : "(none)";
}

static void test_fields(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, LOG_LEVEL_INFO);
    f.log.request_id = "req_1";
    errno = ENOENT;
    log_warn(&f.log, "disk is low", LOG_STR("path", "/x"), LOG_INT("left", -5),
             LOG_U64("size", UINT64_MAX / 2), LOG_BOOL("is_root", true), LOG_STR("none", NULL),
             LOG_MS("ms", 0.1236));
    assert_int_equal(errno, ENOENT);
    scoped_json json_t *line = next_line(&f);
    assert_string_equal(get(line, "level"), "warn");
    assert_string_equal(get(line, "message"), "disk is low");
    assert_string_equal(get(line, "request"), "req_1");
    assert_string_equal(get(line, "path"), "/x");
    assert_int_equal(json_integer_value(json_object_get(line, "left")), -5);
    assert_true(json_real_value(json_object_get(line, "ms")) == 0.124);
    assert_true(json_is_true(json_object_get(line, "is_root")));
    assert_true(json_is_null(json_object_get(line, "none")));
    assert_int_equal(strlen(get(line, "time")), strlen("2026-01-02T03:04:05.678Z"));
    fixture_release(&f);
}

static void test_level(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, LOG_LEVEL_WARN);
    log_debug(&f.log, "a");
    log_info(&f.log, "b");
    log_write(NULL, LOG_LEVEL_ERROR, "c", &(struct log_field){0});
    assert_null(next_line(&f));
    log_error(&f.log, "d");
    scoped_json json_t *line = next_line(&f);
    assert_string_equal(get(line, "message"), "d");
    assert_string_equal(get(line, "request"), "(none)");
    fixture_release(&f);
}

struct escape_case {
    const char *name, *in, *out;
};

static const struct escape_case escapes[] = {
    {"a line end cannot start a second line", "a\n{\"level\":\"error\"}",
     "a\n{\"level\":\"error\"}"},
    {"quotes and backslashes stay what they are", "\"\\", "\"\\"},
    {"an escape sequence cannot reach the terminal", "\033[2J\x7f", "\033[2J\x7f"},
    {"nor can an eight-bit one",
     "\xc2\x9b"
     "2J",
     "\xc2\x9b"
     "2J"},
    {"a Unicode line separator cannot split a line", "a\xe2\x80\xa8z", "a\xe2\x80\xa8z"},
    {"bytes that are no text are replaced", "a\xff\xc3z", "a\xef\xbf\xbd\xef\xbf\xbdz"},
};

static void test_escape(void **state)
{
    const struct escape_case *row = *state;
    struct fixture f;
    fixture_init(&f, LOG_LEVEL_INFO);
    log_info(&f.log, row->in, LOG_STR("field", row->in));
    scoped_json json_t *line = next_line(&f);
    assert_string_equal(get(line, "message"), row->out);
    assert_string_equal(get(line, "field"), row->out);
    assert_null(strstr(f.line, "\xc2\x9b"));
    assert_null(strstr(f.line, "\xe2\x80\xa8"));
    fixture_release(&f);
}

static void test_too_long(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, LOG_LEVEL_INFO);
    char big[3 * LOG_VALUE_MAX_BYTES];
    memset(big, '\001', sizeof(big) - 1); /* each takes six bytes in the line */
    big[sizeof(big) - 1] = '\0';
    f.log.request_id = big;
    log_info(&f.log, big, LOG_STR("one", big), LOG_STR("two", big), LOG_STR("three", "x"));
    scoped_json json_t *line = next_line(&f);
    assert_int_equal(strlen(get(line, "message")), LOG_VALUE_MAX_BYTES / strlen("\\u0001"));
    assert_true(json_is_true(json_object_get(line, "cut")));
    fixture_release(&f);
}

static int64_t number(const json_t *line, const char *key)
{
    return json_integer_value(json_object_get(line, key));
}

static void test_long_value(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, LOG_LEVEL_INFO);
    char half[LOG_VALUE_MAX_BYTES + 1];
    for (size_t i = 0; i < sizeof(half); i++)
        half[i] = i % 2 ? 'x' : '\001';
    half[sizeof(half) - 1] = '\0';
    log_info(&f.log, "long", LOG_STR("one", half), LOG_STR("two", half), LOG_STR("three", half));
    scoped_json json_t *line = next_line(&f);
    size_t len = strlen(get(line, "one"));
    assert_true(len / 2 * 7 <= LOG_VALUE_MAX_BYTES && len / 2 * 7 > LOG_VALUE_MAX_BYTES - 14);
    assert_string_equal(get(line, "one"), get(line, "three"));
    assert_null(json_object_get(line, "cut"));
    fixture_release(&f);
}

/* What is dropped is counted, and told of when there is room: then lines come as before. */
static void test_loss(void **state)
{
    (void)state;
    struct fixture f;
    struct log_loss loss = {.total = 0};
    fixture_init(&f, LOG_LEVEL_INFO);
    f.log.loss = &loss;
    uint64_t written = 0;
    while (loss.total < 3) {
        log_info(&f.log, "filling");
        written++;
    }
    errno = ENOENT;
    log_words(&f.log, "plain %d", 4);
    log_tell_loss(&f.log);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(loss.total, 4);
    for (uint64_t i = 0; i < written - 3; i++)
        json_decref(next_line(&f));
    assert_null(next_line(&f));
    log_info(&f.log, "again");
    scoped_json json_t *note = next_line(&f), *line = next_line(&f);
    assert_string_equal(get(note, "level"), "warn");
    assert_int_equal(number(note, "lines"), 4);
    assert_int_equal(strlen(get(note, "since")), strlen("2026-01-02T03:04:05.678Z"));
    assert_string_equal(get(line, "message"), "again");
    log_tell_loss(&f.log);
    assert_null(next_line(&f));
    assert_int_equal(loss.untold, 0);
    assert_int_equal(loss.total, 4);
    fixture_release(&f);
}

static void test_words(void **state)
{
    (void)state;
    struct fixture f;
    char long_text[2 * LOG_LINE_MAX_BYTES];
    fixture_init(&f, LOG_LEVEL_INFO);
    memset(long_text, 'x', sizeof(long_text) - 1);
    long_text[sizeof(long_text) - 1] = '\0';
    log_words(&f.log, "%d words", 2);
    assert_int_equal(read(f.pair[1], f.line, sizeof(f.line)), (ssize_t)strlen("2 words\n"));
    assert_memory_equal(f.line, "2 words\n", strlen("2 words\n"));
    log_words(&f.log, "%s", long_text);
    ssize_t n = read(f.pair[1], f.line, sizeof(f.line));
    assert_true(n > (ssize_t)LOG_LINE_MAX_BYTES - 4 && n <= (ssize_t)LOG_LINE_MAX_BYTES);
    assert_int_equal(f.line[n - 1], '\n');
    fixture_release(&f);
}

static void test_file(void **state)
{
    (void)state;
    char *dir = check_temp_dir();
    scoped_free char *path = xasprintf("%s/log", dir), *bad = xasprintf("%s/no/log", dir);
    struct log log;
    struct error err;
    struct stat st;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(log_open(&log, path, LOG_LEVEL_INFO, &err), 0);
        log_info(&log, "started");
        log_close(&log);
    }
    scoped_free char *text = check_read_file(path);
    assert_non_null(strchr(strchr(text, '\n') + 1, '\n'));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(log_open(&log, bad, LOG_LEVEL_INFO, &err), -1);
    assert_int_equal(err.code, ERROR_NOT_FOUND);
    assert_int_equal(log_open(&log, NULL, LOG_LEVEL_INFO, &err), 0);
    assert_int_equal(log.fd, STDERR_FILENO);
    log_close(&log);
    assert_true(fcntl(STDERR_FILENO, F_GETFD) >= 0);
    check_remove_dir(dir);
}

int main(void)
{
    struct check check = {.count = 0};
    check_one(&check, "fields keep their types, and errno is left alone", test_fields);
    check_one(&check, "what is below the level is dropped", test_level);
    check_rows(&check, escapes, test_escape);
    check_one(&check, "a line that is too long loses fields and stays valid", test_too_long);
    check_one(&check, "a long value is cut as it is written", test_long_value);
    check_one(&check, "lines without room are counted and told of", test_loss);
    check_one(&check, "plain words are a line", test_words);
    check_one(&check, "a file is private and grows; stderr is not closed", test_file);
    return check_run(&check, "log");
}
