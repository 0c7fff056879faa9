/* quick.c - the Python kernel's way through an ordinary execution, in C
 *
 * All state is in the objects of kernel.py, whose functions may be called between any two steps.
 * Each step names the function that it stands for. Interrupts are theirs, too: handlers of signals
 * run in Python's code, and in PyErr_CheckSignals(), and ask what `is_running` says. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "quick.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/macros.h"
#include "quick_code.h"
#include "quick_object.h"
#include "wire/guest.h"
#include "wire/kernel.h"

#define REHEARSALS   4
#define ATTENTION_NS 50000
#define SOON_NS      100000 /* with the time that waking up takes */
#define TEXT_MAX     16384  /* bytes of a result that goes out with DONE */
#define ITEMS_MAX    1000   /* of a collection whose text may be as short as that */
#define PACKAGES     "/packages"
#define PYPLOT       "matplotlib.pyplot"
#define PLAIN        "text/plain" /* with its NUL */

#define CO_COROUTINE        0x80
#define RECURSION_LIMIT_MIN 500
#define RECURSION_LIMIT     1000
#define SIGNALS_END         65

static struct {
    struct quick_part kernel, channel, interrupts, streams, results, cells, workspace;
    PyObject *main, *namespace, *builtins, *display;
    PyObject *left;       /* what Results.begin() makes of `left` */
    PyObject *input_type; /* InputFile */
    PyObject *count_threads, *getsignal, *settrace, *setprofile;
    PyObject *ready; /* the first frame */
    sigset_t mask;
    int null_fd;
    pid_t pid;
    int64_t answered_ns; /* when it has answered last */
    bool is_attentive;   /* what came last came soon after that */
    bool is_fresh;       /* nothing of the code's has run: all is as it was made */
} k;

struct request {
    struct kernel_frame head;
    char *body; /* one byte more can be written */
    size_t size;
    int fds[3];
    size_t fd_count;
};

/* --- interrupts ------------------------------------------------------------------------------ */

/* Handlers have their turn; where nothing runs that they could end, what they raise is nobody's. */
static void heed_signals(void)
{
    if (PyErr_CheckSignals() < 0)
        PyErr_Clear();
}

/* Interrupts.guard(): its beginning and its end. */
static bool begin_guard(void)
{
    return quick_set_bool(&k.interrupts, N_is_late, false) &&
           quick_set_bool(&k.interrupts, N_is_running, true);
}

static bool end_guard(void)
{
    bool is_good = quick_set_bool(&k.interrupts, N_is_running, false);
    heed_signals(); /* one that came last is not for the next */
    return is_good;
}

/* --- the channel ----------------------------------------------------------------------------- */

static NORETURN void end(void)
{
    _exit(PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_ConnectionError));
}

static void take_rights(struct request *r, struct msghdr *m)
{
    struct cmsghdr *c = CMSG_FIRSTHDR(m);
    r->fd_count = 0;
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
        r->fd_count = MIN((c->cmsg_len - CMSG_LEN(0)) / sizeof(int), ARRAY_LEN(r->fds));
        memcpy(r->fds, CMSG_DATA(c), r->fd_count * sizeof(int));
    }
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

/* Who asks for one thing right after the other is heard at once: to fall asleep and to be woken
 * takes longer than most answers. It takes processor time of the tenant's, so it is done only when
 * the last one came so soon; and others who want the processor go first. */
static ssize_t hear(struct msghdr *m)
{
    for (int64_t until = k.is_attentive ? now_ns() + ATTENTION_NS : 0; until > now_ns();) {
        ssize_t n = recvmsg(KERNEL_CHANNEL_FD, m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
        if (n >= 0 || errno != EAGAIN)
            return n;
        sched_yield();
    }
    return recvmsg(KERNEL_CHANNEL_FD, m, MSG_CMSG_CLOEXEC);
}

/* Channel.receive(), of one frame. */
static void receive(struct request *r)
{
    static char frame[KERNEL_FRAME_MAX + 1];
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(r->fds))];
    } rights;
    struct iovec bytes = {frame, KERNEL_FRAME_MAX};
    struct msghdr m = {.msg_iov = &bytes, .msg_iovlen = 1, .msg_control = &rights};
    ssize_t n;
    do {
        m.msg_controllen = sizeof(rights);
        PyThreadState *state = PyEval_SaveThread();
        n = hear(&m);
        int error = errno;
        PyEval_RestoreThread(state);
        heed_signals();
        errno = error;
    } while (n < 0 && errno == EINTR);
    if (n < (ssize_t)sizeof(r->head))
        _exit(n > 0 || (n < 0 && errno != ECONNRESET));
    k.is_attentive = now_ns() - k.answered_ns < SOON_NS;
    memcpy(&r->head, frame, sizeof(r->head));
    r->body = frame + sizeof(r->head);
    r->size = MIN(r->head.length, (size_t)n - sizeof(r->head));
    take_rights(r, &m);
}

static void send_all(const char *data, size_t size)
{
    ssize_t n;
    do {
        PyThreadState *state = PyEval_SaveThread();
        n = send(KERNEL_CHANNEL_FD, data, size, MSG_NOSIGNAL);
        int error = errno;
        PyEval_RestoreThread(state);
        heed_signals();
        errno = error;
    } while (n < 0 && errno == EINTR);
    if (n < 0)
        _exit(errno != EPIPE && errno != ECONNRESET);
}

/* Channel.begin() */
static bool begin_answer(uint32_t generation, bool is_heard)
{
    return quick_give(&k.channel, N_kept, PyList_New(0)) &&
           quick_give(&k.channel, N_sent, PyLong_FromLong(0)) &&
           quick_give(&k.channel, N_generation, PyLong_FromUnsignedLong(generation)) &&
           quick_set_bool(&k.channel, N_is_open, is_heard);
}

static bool has_threads(void)
{
    PyObject *count = PyObject_CallObject(k.count_threads, NULL);
    long number = count ? PyLong_AsLong(count) : -1;
    Py_XDECREF(count);
    if (number < 0)
        PyErr_Clear();
    return number != 0;
}

/* Whether nothing was shown yet, and nobody else could begin to. */
static bool is_answer_empty(void)
{
    PyObject *kept = quick_get(&k.channel, N_kept);
    return PyList_CheckExact(kept) && PyList_Size(kept) == 0 && !has_threads();
}

static size_t put_frame(char *to, struct kernel_frame head, const void *first, size_t first_size,
                        const void *second)
{
    memcpy(to, &head, sizeof(head));
    memcpy(to + sizeof(head), first, first_size);
    memcpy(to + sizeof(head) + first_size, second, head.length - first_size);
    return sizeof(head) + head.length;
}

/* All that there is to say, in one datagram; kept, as Channel.send() keeps what it sends. */
static bool answer_quickly(uint32_t generation, int32_t status, uint16_t flags, PyObject *text)
{
    static char datagram[TEXT_MAX + 128];
    size_t size = 0;
    if (text) {
        struct kernel_frame data = {.length =
                                        (uint32_t)(sizeof(PLAIN) + (size_t)PyBytes_Size(text)),
                                    .type = KERNEL_DATA,
                                    .flags = KERNEL_FIRST | KERNEL_MAIN | KERNEL_LAST,
                                    .generation = generation};
        size += put_frame(datagram, data, PLAIN, sizeof(PLAIN), PyBytes_AsString(text));
    }
    struct kernel_frame done = {
        .length = sizeof(status), .type = KERNEL_DONE, .flags = flags, .generation = generation};
    size += put_frame(datagram + size, done, &status, sizeof(status), "");
    PyObject *kept = Py_BuildValue("[y#]", datagram, (Py_ssize_t)size);
    if (!quick_give(&k.channel, N_kept, kept) ||
        !quick_give(&k.channel, N_sent, PyLong_FromLong(1)) ||
        !quick_set_bool(&k.channel, N_is_open, false))
        return false;
    send_all(datagram, size);
    return true;
}

/* The same by kernel.py: behind what was shown before. */
static bool answer(int32_t status, uint16_t flags, PyObject *text)
{
    PyObject *code = Py_BuildValue("i", status), *mark = Py_BuildValue("i", flags);
    bool is_good = code && mark;
    if (is_good && text) {
        PyObject *type = Py_BuildValue("i", KERNEL_DATA);
        PyObject *main = Py_BuildValue("i", KERNEL_FIRST | KERNEL_MAIN | KERNEL_LAST);
        PyObject *body = PyBytes_FromStringAndSize(PLAIN, sizeof(PLAIN));
        if (body)
            PyBytes_Concat(&body, text);
        is_good =
            type && main && body && quick_do(k.channel.object, N_send, type, body, main, NULL);
        Py_XDECREF(type);
        Py_XDECREF(main);
        Py_XDECREF(body);
    }
    is_good = is_good && quick_do(k.channel.object, N_done, code, mark, NULL);
    Py_XDECREF(code);
    Py_XDECREF(mark);
    return is_good;
}

/* --- streams --------------------------------------------------------------------------------- */

/* Open, and with no attributes of the code's own. */
static bool is_whole(PyObject *stream)
{
    PyObject *closed = quick_attribute(stream, N_closed), *own = NULL;
    if (closed == Py_False)
        own = quick_attribute(stream, N___dict__);
    bool is_good = own && PyDict_Check(own) && PyDict_Size(own) == 0;
    Py_XDECREF(closed);
    Py_XDECREF(own);
    PyErr_Clear(); /* it has lost its buffer */
    return is_good;
}

static PyObject *raw_of(PyObject *stream)
{
    PyObject *buffer = quick_attribute(stream, N_buffer);
    PyObject *raw = buffer ? quick_attribute(buffer, N_raw) : NULL;
    Py_XDECREF(buffer);
    return raw;
}

/* Streams.is_unread() */
static bool is_input_unread(void)
{
    PyObject *input = quick_get(&k.streams, N_input), *raw = raw_of(input);
    PyObject *is_read = raw ? quick_attribute(raw, N_is_read) : NULL;
    bool is_good = is_read == Py_False && (PyObject *)Py_TYPE(raw) == k.input_type &&
                   PySys_GetObject("stdin") == input && PySys_GetObject("__stdin__") == input &&
                   is_whole(input);
    Py_XDECREF(raw);
    Py_XDECREF(is_read);
    PyErr_Clear();
    return is_good;
}

/* stdout and stderr, if they are what Streams.make_outputs() made; borrowed. */
static bool find_outputs(PyObject *streams[2])
{
    streams[0] = PySys_GetObject("stdout"), streams[1] = PySys_GetObject("stderr");
    PyObject *ours = quick_get(&k.streams, N_ours);
    return PyTuple_CheckExact(ours) && PyTuple_Size(ours) == 2 &&
           PyTuple_GetItem(ours, 0) == streams[0] && PyTuple_GetItem(ours, 1) == streams[1];
}

static bool are_outputs_as_left(void)
{
    PyObject *streams[2];
    return find_outputs(streams) && is_whole(streams[0]) && is_whole(streams[1]);
}

/* Streams.connect() */
static bool connect_streams(const int *fds)
{
    for (int i = 0; i < 3; i++) {
        if (dup2(fds[i], i) < 0 || dup3(k.null_fd, fds[i], O_CLOEXEC) < 0) {
            PyErr_SetFromErrno(PyExc_OSError);
            return false;
        }
    }
    if (k.is_fresh)
        return true;
    if (!is_input_unread() && !quick_do(k.streams.object, N_make_input, NULL))
        return false;
    return are_outputs_as_left() || quick_do(k.streams.object, N_make_outputs, NULL);
}

static void close_all(const struct request *r)
{
    for (size_t i = 0; i < r->fd_count; i++)
        close(r->fds[i]);
}

/* Streams.flush() */
static bool flush_streams(void)
{
    PyObject *streams[2];
    bool is_good = true;
    if (!find_outputs(streams)) {
        PyObject *flush = quick_attribute(k.streams.object, N_flush);
        is_good = flush && quick_do(k.interrupts.object, N_guard, flush, NULL);
        Py_XDECREF(flush);
        return is_good;
    }
    is_good = begin_guard();
    for (int i = 0; i < 2; i++) {
        Py_INCREF(streams[i]);
        if (!quick_do(streams[i], N_flush, NULL)) {
            PyErr_Clear();
            is_good = quick_set_bool(&k.streams, N_is_stuck, true) && is_good;
        }
        Py_DECREF(streams[i]);
    }
    return end_guard() && is_good;
}

/* The kernel's own /dev/null and pid, where kernel.py has come to other ones. */
static bool look_again(void)
{
    k.null_fd = (int)quick_number(&k.streams, N_null);
    k.pid = (pid_t)quick_number(&k.channel, N_pid);
    k.is_fresh = false;
    return true;
}

/* Streams.disconnect() */
static bool disconnect_streams(void)
{
    bool is_good = !quick_is(&k.streams, N_is_stuck);
    for (int i = 0; i < 3; i++)
        is_good = is_good && dup2(k.null_fd, i) >= 0;
    return is_good || (quick_do(k.streams.object, N_disconnect, NULL) && look_again());
}

/* --- files ----------------------------------------------------------------------------------- */

static long nanoseconds(const struct timespec *t)
{
    return t->tv_sec * 1000000000L + t->tv_nsec;
}

/* A folder of nothing but itself and its parent. */
static bool is_empty(const char *path)
{
    char entries[2 * sizeof(struct dirent64)];
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    long size = fd < 0 ? -1 : syscall(SYS_getdents64, fd, entries, sizeof(entries)), at = 0;
    while (at < size) {
        const struct dirent64 *e = (const struct dirent64 *)(const void *)(entries + at);
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            break;
        at += e->d_reclen;
    }
    if (fd >= 0)
        close(fd);
    return size > 0 && at == size;
}

/* Workspace.is_untouched() */
static bool is_untouched(void)
{
    struct stat st;
    struct timespec now;
    bool was_empty = quick_is(&k.workspace, N_is_empty), is_so;
    if (clock_gettime(CLOCK_REALTIME_COARSE, &now) < 0 || stat(GUEST_WORKSPACE, &st) < 0)
        return false;
    is_so = (was_empty && nanoseconds(&st.st_mtim) < quick_number(&k.workspace, N_seen)) ||
            is_empty(GUEST_WORKSPACE);
    if (is_so)
        return quick_give(&k.workspace, N_seen, PyLong_FromLong(nanoseconds(&now))) &&
               quick_set_bool(&k.workspace, N_is_empty, true);
    PyObject *answer =
        PyObject_CallMethodObjArgs(k.workspace.object, quick_names[N_is_untouched], NULL);
    is_so = answer == Py_True;
    Py_XDECREF(answer);
    PyErr_Clear();
    return is_so;
}

/* --- an execution ---------------------------------------------------------------------------- */

static bool put(PyObject *dict, enum quick_name name, PyObject *value)
{
    return PyDict_GetItem(dict, quick_names[name]) == value ||
           PyDict_SetItem(dict, quick_names[name], value) == 0;
}

/* Kernel.prepare() and Results.begin() */
static bool prepare(void)
{
    if (k.is_fresh)
        return true;
    if (!put(PyImport_GetModuleDict(), N___main__, k.main) ||
        !put(k.builtins, N_display, k.display) || !quick_set(&k.results, N_left, k.left))
        return false;
    if ((has_threads() || quick_is(&k.results, N_old_threads)) &&
        !quick_do(k.results.object, N_begin, NULL))
        return false;
    if (quick_is(&k.interrupts, N_theirs) && !quick_do(k.interrupts.object, N_wake_theirs, NULL))
        return false;
    return quick_set_bool(&k.interrupts, N_is_owed, false);
}

static bool is_plain(PyObject *value)
{
    PyTypeObject *const small[] = {&PyLong_Type, &PyFloat_Type, &PyBool_Type};
    PyTypeObject *const sized[] = {&PyUnicode_Type, &PyBytes_Type, &PyList_Type,
                                   &PyTuple_Type,   &PyDict_Type,  &PySet_Type};
    for (size_t i = 0; i < ARRAY_LEN(small); i++) {
        if (Py_TYPE(value) == small[i])
            return true;
    }
    for (size_t i = 0; i < ARRAY_LEN(sized); i++) {
        if (Py_TYPE(value) == sized[i])
            return PyObject_Size(value) <= ITEMS_MAX;
    }
    return false;
}

/* Results.show(), of what has nothing but a text. One that is short is left to be sent with DONE.
 */
static bool show_plain(PyObject *value, PyObject **text)
{
    PyObject *repr = PyObject_Repr(value);
    *text = repr ? PyUnicode_AsEncodedString(repr, "utf-8", "replace") : NULL;
    Py_XDECREF(repr);
    if (!*text || PyBytes_Size(*text) <= TEXT_MAX)
        return *text != NULL;
    PyObject *forms = Py_BuildValue("{sN}", PLAIN, *text), *mark = Py_BuildValue("i", KERNEL_MAIN);
    *text = NULL;
    bool is_good = forms && mark && quick_do(k.results.object, N_send, forms, mark, NULL);
    Py_XDECREF(forms);
    Py_XDECREF(mark);
    return is_good;
}

/* Kernel.take() */
static bool take_value(PyObject *value, PyObject **text)
{
    if (value == Py_None)
        return true;
    if (PyDict_SetItem(k.builtins, quick_names[N__], value) < 0)
        return false;
    if (getpid() != k.pid)
        return true; /* a child of the code */
    if (is_plain(value) && is_answer_empty())
        return show_plain(value, text);
    PyObject *mark = Py_BuildValue("i", KERNEL_MAIN);
    bool is_good = mark && quick_do(k.results.object, N_show, value, mark, NULL);
    Py_XDECREF(mark);
    return is_good;
}

/* -1: with an exception. */
static int awaits(PyObject *codes)
{
    bool is_one = false;
    for (Py_ssize_t i = 0; i < PyList_Size(codes); i++) {
        long flags = quick_attribute_number(PyList_GetItem(codes, i), N_co_flags);
        if (flags < 0)
            return -1;
        is_one |= (flags & CO_COROUTINE) != 0;
    }
    return is_one;
}

/* Kernel.call() */
static bool call_all(PyObject *codes, PyObject **text)
{
    int is_awaiting = awaits(codes);
    if (is_awaiting)
        return is_awaiting > 0 && quick_do(k.kernel.object, N_call, codes, NULL);
    for (Py_ssize_t i = 0; i < PyList_Size(codes); i++) {
        PyObject *value = PyEval_EvalCode(PyList_GetItem(codes, i), k.namespace, k.namespace);
        bool is_good = value && take_value(value, text);
        Py_XDECREF(value);
        if (!is_good)
            return false;
    }
    return true;
}

/* The exception that is set, whole; NULL: none is. */
static PyObject *take_error(void)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (!type)
        return NULL;
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback && value)
        PyException_SetTraceback(value, traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return value;
}

/* Those that pyplot holds are shown, unless who waits for them has lost patience. */
static PyObject *end_figures(PyObject *error)
{
    if (!PyDict_GetItemString(PyImport_GetModuleDict(), PYPLOT) ||
        quick_do(k.kernel.object, N_end_figures, error ? error : Py_None, NULL))
        return error;
    Py_XDECREF(error);
    return take_error();
}

static void stop_tracing(void)
{
    PyObject *const functions[] = {k.setprofile, k.settrace};
    for (size_t i = 0; i < ARRAY_LEN(functions); i++) {
        Py_XDECREF(PyObject_CallFunctionObjArgs(functions[i], Py_None, NULL));
        PyErr_Clear();
    }
}

/* Kernel.run(): the exception that came out of it, or NULL. */
static PyObject *run(struct request *r, PyObject **text)
{
    PyObject *codes = quick_code(&k.kernel, &k.cells, r->body, r->size), *error = NULL;
    if (!codes || !call_all(codes, text))
        error = take_error();
    error = end_figures(error);
    stop_tracing();
    Py_XDECREF(codes);
    return error;
}

static bool is_calm(void)
{
    PyObject *calm = quick_get(&k.interrupts, N_calm);
    bool is_so = PyList_CheckExact(calm) && PyList_Size(calm) == SIGNALS_END - 1;
    for (int number = 1; is_so && number < SIGNALS_END; number++) {
        PyObject *handler = PyObject_CallFunction(k.getsignal, "i", number);
        is_so = handler == PyList_GetItem(calm, number - 1);
        Py_XDECREF(handler);
    }
    PyErr_Clear();
    return is_so;
}

/* Kernel.settle(), where nothing was set for this execution alone. */
static bool settle(void)
{
    bool is_good = quick_set_bool(&k.interrupts, N_is_settling, true);
    if (Py_GetRecursionLimit() < RECURSION_LIMIT_MIN)
        Py_SetRecursionLimit(RECURSION_LIMIT);
    if (is_good && quick_module(N_signal)) {
        pthread_sigmask(SIG_SETMASK, &k.mask, NULL);
        is_good = is_calm() || quick_do(k.kernel.object, N_settle_handlers, NULL);
    }
    return quick_set_bool(&k.interrupts, N_is_settling, false) && is_good;
}

/* Kernel.report() and Kernel.leave_child() are given a list, to empty it when they may be
 * interrupted. Takes over the error. */
static bool tell_error(enum quick_name how, PyObject *error)
{
    PyObject *outcome = PyList_New(1);
    if (!outcome) {
        Py_DECREF(error);
        return false;
    }
    PyList_SetItem(outcome, 0, error);
    bool is_good = quick_do(k.kernel.object, how, outcome, NULL);
    Py_DECREF(outcome);
    return is_good;
}

static NORETURN void leave_child(PyObject *error)
{
    if (!error)
        Py_INCREF(Py_None);
    tell_error(N_leave_child, error ? error : Py_None);
    _exit(1);
}

/* Between the code and DONE. */
static bool finish(const struct request *r, PyObject *error, PyObject *text, bool is_heard)
{
    long status = 0;
    close_all(r);
    if (!settle() || (error && !tell_error(N_report, error)))
        return false;
    if (error)
        status = quick_number(&k.kernel, N_status);
    if (!flush_streams() || !disconnect_streams())
        return false;
    uint16_t flags = is_untouched() ? KERNEL_UNTOUCHED : 0;
    if (!is_heard)
        return true;
    return is_answer_empty() ? answer_quickly(r->head.generation, (int32_t)status, flags, text)
                             : answer((int32_t)status, flags, text);
}

/* Kernel.execute(). False: the kernel itself has failed. */
static bool execute(struct request *r, bool is_heard)
{
    PyObject *text = NULL, *error = NULL;
    if (!begin_answer(r->head.generation, is_heard) || !connect_streams(r->fds) || !prepare() ||
        !begin_guard()) {
        close_all(r);
        return false;
    }
    k.is_fresh = k.is_fresh && !is_heard;
    error = run(r, &text);
    if (!end_guard())
        return false;
    if (getpid() != k.pid)
        leave_child(error);
    bool is_good = finish(r, error, text, is_heard);
    Py_XDECREF(text);
    k.answered_ns = now_ns();
    return is_good;
}

/* Kernel.fail() */
static void fail(void)
{
    PyObject *error = take_error();
    if (!error || !quick_do(k.kernel.object, N_fail, error, NULL) || !look_again())
        end();
    Py_DECREF(error);
}

static void run_for_nobody(const char *text)
{
    char code[16]; /* which is written to */
    struct request r = {.body = code, .size = strlen(text)};
    memcpy(code, text, r.size + 1);
    for (; r.fd_count < ARRAY_LEN(r.fds); r.fd_count++)
        r.fds[r.fd_count] = fcntl(k.null_fd, F_DUPFD_CLOEXEC, 3);
    if (r.fds[2] < 0)
        close_all(&r);
    else
        (void)!execute(&r, false);
    PyErr_Clear();
}

/* Kernel.rehearse(): it leaves no trace. What is one expression is compiled in another way. */
static void rehearse(void)
{
    static const char *const shapes[] = {"print(1)\n1", "print(1)"};
    PyObject *kept = quick_get(&k.channel, N_kept), *sent = quick_get(&k.channel, N_sent);
    Py_INCREF(kept);
    Py_INCREF(sent);
    for (size_t i = 0; i < ARRAY_LEN(shapes); i++)
        run_for_nobody(shapes[i]);
    (void)!quick_give(&k.channel, N_kept, kept);
    (void)!quick_give(&k.channel, N_sent, sent);
    (void)!quick_do(k.cells.object, N_forget, NULL);
    PyDict_DelItem(k.builtins, quick_names[N__]);
    PyErr_Clear();
}

/* --- requests -------------------------------------------------------------------------------- */

/* Kernel.take(), or Kernel.take_rest() where it is not all. */
static void ask_python(const struct request *r)
{
    PyObject *fds = PyList_New(0);
    for (size_t i = 0; fds && i < r->fd_count; i++) {
        PyObject *fd = PyLong_FromLong(r->fds[i]);
        if (!fd || PyList_Append(fds, fd) < 0)
            Py_CLEAR(fds);
        Py_XDECREF(fd);
    }
    enum quick_name how = r->head.flags & KERNEL_MORE ? N_take_rest : N_take;
    PyObject *kind = PyLong_FromLong(r->head.type);
    PyObject *generation = PyLong_FromUnsignedLong(r->head.generation);
    PyObject *body = PyBytes_FromStringAndSize(r->body, (Py_ssize_t)r->size);
    if (!fds || !kind || !generation || !body ||
        !quick_do(k.kernel.object, how, kind, generation, body, fds, NULL) || !look_again())
        end();
    Py_DECREF(fds);
    Py_DECREF(kind);
    Py_DECREF(generation);
    Py_DECREF(body);
}

static bool is_ordinary(const struct request *r)
{
    if (r->head.type != KERNEL_EXECUTE || r->head.flags & KERNEL_MORE || r->fd_count != 3 ||
        quick_is(&k.kernel, N_settings))
        return false;
    return r->fds[0] > 2 && r->fds[1] > 2 && r->fds[2] > 2;
}

static bool is_rehearsal(const struct request *r)
{
    static const char word[] = "rehearse";
    return r->head.type == KERNEL_SET && r->head.flags == 0 && r->size == sizeof(word) &&
           memcmp(r->body, word, sizeof(word)) == 0;
}

static NORETURN void serve(void)
{
    for (;;) {
        struct request r;
        receive(&r);
        if (is_rehearsal(&r))
            rehearse();
        else if (!is_ordinary(&r))
            ask_python(&r);
        else if (!execute(&r, true))
            fail();
    }
}

/* --- before and behind the fork -------------------------------------------------------------- */

static PyObject *take_function(const char *module_name, enum quick_name name)
{
    PyObject *module = PyImport_ImportModule(module_name);
    PyObject *function = module ? quick_attribute(module, name) : NULL;
    Py_XDECREF(module);
    return function;
}

static bool take_parts(PyObject *kernel)
{
    const struct {
        struct quick_part *place;
        enum quick_name name;
    } parts[] = {
        {&k.channel, N_channel}, {&k.interrupts, N_interrupts}, {&k.streams, N_streams},
        {&k.results, N_results}, {&k.cells, N_cells},           {&k.workspace, N_workspace},
    };
    Py_INCREF(kernel);
    if (!quick_part_of(&k.kernel, kernel))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        if (!quick_part_of(parts[i].place, quick_attribute(kernel, parts[i].name)))
            return false;
    }
    k.main = quick_attribute(kernel, N_main);
    k.namespace = quick_attribute(kernel, N_namespace);
    k.display = quick_attribute(kernel, N_display);
    k.builtins = PyEval_GetBuiltins();
    Py_XINCREF(k.builtins);
    return k.main && k.namespace && k.display;
}

static bool take_functions(void)
{
    k.count_threads = take_function("_thread", N__count);
    k.getsignal = take_function("_signal", N_getsignal);
    k.settrace = PySys_GetObject("settrace");
    k.setprofile = PySys_GetObject("setprofile");
    Py_XINCREF(k.settrace);
    Py_XINCREF(k.setprofile);
    if (!k.count_threads || !k.getsignal || !k.settrace || !k.setprofile)
        return false;
    return quick_code_prepare();
}

static bool take_types(void)
{
    PyObject *raw = raw_of(quick_get(&k.streams, N_input));
    if (!raw || !quick_do(k.results.object, N_begin, NULL))
        return false;
    k.input_type = (PyObject *)Py_TYPE(raw);
    Py_INCREF(k.input_type);
    Py_DECREF(raw);
    k.left = quick_get(&k.results, N_left);
    Py_INCREF(k.left);
    return true;
}

/* What the descriptors 0 to 2 and 3 are is not the zygote's business: they are the copy's. */
static bool be_somebody(void)
{
    k.pid = getpid();
    k.null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (k.null_fd < 0) {
        PyErr_SetFromErrno(PyExc_OSError);
        return false;
    }
    return quick_give(&k.channel, N_pid, PyLong_FromLong(k.pid)) &&
           quick_give(&k.streams, N_null, PyLong_FromLong(k.null_fd));
}

bool quick_prepare(PyObject *kernel)
{
    if (!quick_make_names())
        return false;
    if (quick_attribute_number(kernel, N_QUICK) != QUICK_VERSION) {
        PyErr_Clear();
        PyErr_SetString(PyExc_RuntimeError, "another version of the kernel");
        return false;
    }
    pthread_sigmask(SIG_SETMASK, NULL, &k.mask);
    if (!take_parts(kernel) || !take_functions() || !take_types() || !be_somebody())
        return false;
    for (int i = 0; i < REHEARSALS; i++)
        rehearse();
    close(k.null_fd);
    k.is_fresh = prepare();
    k.ready = PyObject_CallMethodObjArgs(kernel, quick_names[N_prepare_ready], NULL);
    return k.ready && PyBytes_Check(k.ready);
}

void quick_serve(void *fork_point)
{
    if (!be_somebody() || !disconnect_streams() ||
        (access(PACKAGES, F_OK) == 0 && !is_empty(PACKAGES) &&
         !quick_do(k.kernel.object, N_find_packages, NULL)))
        end();
    if (fork_point && !quick_give(&k.kernel, N_fork_point, PyLong_FromVoidPtr(fork_point)))
        end();
    send_all(PyBytes_AsString(k.ready), (size_t)PyBytes_Size(k.ready));
    serve();
}
