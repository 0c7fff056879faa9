/* zygote_module.c - the extension that makes a python a zygote: requests in, sandboxes out
 *
 * Built against the stable ABI, so that one file serves every CPython an image may bring. All that
 * seals is src/box; here are only the request loop and the interpreter's rules around a fork. */
/* SPDX-License-Identifier: Apache-2.0 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "arenas.h"
#include "base/fd.h"
#include "box/seal_warm.h"
#include "box/seccomp.h"
#include "large_page.h"
#include "quick.h"
#include "wire/zygote.h"

#ifndef PR_GET_TID_ADDRESS
#define PR_GET_TID_ADDRESS 40
#endif

enum { FD_REPORT, FD_CONTROL, FD_CHANNEL, FD_FIXED };

static struct filter {
    struct sock_filter code[SECCOMP_FILTER_MAX];
    size_t len;
} rests[2]; /* of a sandbox, on top of ours: without and with a memory cgroup */
static bool is_confined;

/* False for what the spawner would never send. */
static bool read_request(struct seal_plan *plan, const struct zygote_request *r, const int *fds,
                         size_t count)
{
    bool has_into = r->flags & ZYGOTE_INTO_CGROUP, has_net = r->flags & ZYGOTE_NET;
    bool has_sysctl = r->flags & ZYGOTE_SYSCTL;
    size_t at = FD_FIXED;
    size_t least = FD_FIXED + (size_t)has_sysctl + (size_t)has_net + (size_t)has_into;
    if (count < least || count > least + CGROUP_HIERARCHIES_MAX)
        return false;
    *plan = (struct seal_plan){
        .limits = r->limits,
        .uid = r->uid,
        .is_rootless = r->flags & ZYGOTE_ROOTLESS,
        .allow_degraded = r->flags & ZYGOTE_ALLOW_DEGRADED,
        .has_own_uid = r->flags & ZYGOTE_OWN_UID,
        .has_memory_cgroup = r->flags & ZYGOTE_MEMORY_CGROUP,
        .has_pids_cgroup = r->flags & ZYGOTE_PIDS_CGROUP,
        .init_fd = ZYGOTE_INIT_FD,
        .control_fd = fds[FD_CONTROL],
        .channel_fd = fds[FD_CHANNEL],
        .gate_fd = -1,
    };
    plan->sysctl_fd = has_sysctl ? fds[at++] : -1;
    plan->net_fd = has_net ? fds[at++] : -1;
    plan->entry.into_fd = has_into ? fds[at++] : -1;
    while (at < count)
        plan->entry.tasks_fds[plan->entry.task_count++] = fds[at++];
    plan->filter = rests[plan->has_memory_cgroup].code;
    plan->filter_len = rests[plan->has_memory_cgroup].len;
    return true;
}

static void close_all(int *fds, size_t count)
{
    while (count > 0)
        close(fds[--count]);
}

/* --- broods ---------------------------------------------------------------------------------- */

static struct seal_brood brood; /* of this process, if it is one */

static void say(enum seal_event event, int error, const char *text)
{
    struct seal_report r = {.event = event, .sys_errno = error, .layer = -1};
    memcpy(r.step, text, MIN(strlen(text), sizeof(r.step) - 1));
    if (send(ZYGOTE_SOCKET_FD, &r, sizeof(r), MSG_NOSIGNAL) != sizeof(r))
        _exit(1);
}

/* The C library's own: what a process that takes this one's place has to go on with. */
static bool know_thread(void)
{
    unsigned long at = 0;
    if (prctl(PR_GET_TID_ADDRESS, &at, 0, 0, 0) < 0 || !at ||
        *(int *)at != (int)syscall(SYS_gettid) ||
        syscall(SYS_get_robust_list, 0, &brood.robust, &brood.robust_len) < 0)
        return false;
    brood.tid = (int *)at;
    return true;
}

static void make_shared(void)
{
    struct zygote_request request;
    struct seal_plan plan;
    int fds[FD_PASS_MAX];
    size_t count;
    ssize_t n = fd_recv(ZYGOTE_SOCKET_FD, &request, sizeof(request), fds, &count);
    if (n != sizeof(request) || !read_request(&plan, &request, fds, count))
        _exit(n == 0 ? 0 : 1);
    plan.gate_fd = brood.gate_fd;
    seal_warm_shared(&plan, fds[FD_REPORT], &brood);
    close_all(fds, count);
}

/* Makes sandboxes until it is killed. Returns in the first of them, on this very stack: its process
 * waits until we are no more. */
static __attribute__((noinline)) void be_brood(int socket)
{
    int gate[2];
    if (dup2(socket, ZYGOTE_SOCKET_FD) < 0 || pipe2(gate, O_CLOEXEC) < 0)
        _exit(1);
    close(socket);
    brood.gate_fd = gate[0];
    say(SEAL_BORN, 0, "");
    say(SEAL_READY, 0, "");
    if (__builtin_setjmp(brood.resume))
        return;
    for (;;)
        make_shared();
}

/* A copy of this zygote, and like it a child of the spawner's. True in the kernel of its first
 * sandbox. */
static bool make_brood(int socket)
{
    sigset_t mask;
    sigprocmask(SIG_SETMASK, NULL, &mask);
    if (!know_thread())
        return false; /* the end of the socket tells */
    long pid =
        syscall(SYS_clone, CLONE_PARENT | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD, 0,
                NULL, brood.tid, 0);
    if (pid != 0)
        return false;
    be_brood(socket);
    sigprocmask(SIG_SETMASK, &mask, NULL);
    return true;
}

/* --- requests -------------------------------------------------------------------------------- */

static bool is_quick; /* the kernel of the copies is one that quick.c serves */

/* be_copy(calls): what a copy does. The interpreter's own work behind a fork is left out: there is
 * one thread, which holds no lock, and what modules want done is in `calls`. */
static PyObject *be_copy(PyObject *self, PyObject *calls)
{
    (void)self;
    for (Py_ssize_t i = 0; i < PyTuple_Size(calls); i++) {
        PyObject *answer = PyObject_CallObject(PyTuple_GetItem(calls, i), NULL);
        if (!answer)
            return NULL;
        Py_DECREF(answer);
    }
    if (is_quick)
        quick_serve(brood.count < 2 ? NULL : &brood.point);
    Py_RETURN_NONE;
}

/* serve(calls): serves requests. In the processes that this makes it calls each of `calls`; in
 * those whose kernel is not prepared it returns then. */
static PyObject *serve(PyObject *self, PyObject *calls)
{
    if (!PyTuple_Check(calls))
        return PyErr_Format(PyExc_TypeError, "a tuple is wanted");
    if (!is_confined) /* what a sandbox gets is a part of a filter only */
        return PyErr_Format(PyExc_RuntimeError, "a zygote has to be confined");
    for (;;) {
        struct zygote_request request;
        struct seal_plan plan;
        int fds[FD_PASS_MAX];
        size_t count;
        ssize_t n = fd_recv(ZYGOTE_SOCKET_FD, &request, sizeof(request), fds, &count);
        bool is_brood = n == sizeof(request) && request.flags == ZYGOTE_BROOD && count == 1;
        if (n != sizeof(request) || (!is_brood && !read_request(&plan, &request, fds, count)))
            _exit(n == 0 ? 0 : 1);
        if (is_brood ? make_brood(fds[0]) : seal_warm(&plan, fds[FD_REPORT]) == SEAL_WARM_INSIDE)
            return be_copy(self, calls);
        close_all(fds, count);
    }
}

/* prepare(kernel): hands the copies' kernel to quick.c. */
static PyObject *prepare(PyObject *self, PyObject *kernel)
{
    (void)self;
    if (!quick_prepare(kernel))
        return NULL;
    is_quick = true;
    Py_RETURN_NONE;
}

/* report(is_ready, text): the zygote's own word to the spawner. */
static PyObject *report(PyObject *self, PyObject *args)
{
    (void)self;
    int is_ready;
    const char *text;
    if (!PyArg_ParseTuple(args, "ps", &is_ready, &text))
        return NULL;
    say(is_ready ? SEAL_READY : SEAL_FAILED, 0, text);
    Py_RETURN_NONE;
}

/* randomise(address, size): for the state of a generator whose own code would touch a hundred
 * pages. */
static PyObject *randomise(PyObject *self, PyObject *args)
{
    (void)self;
    unsigned long long address;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(args, "Kn", &address, &size))
        return NULL;
    for (Py_ssize_t at = 0; at < size;) {
        ssize_t n = getrandom((char *)(uintptr_t)address + at, (size_t)(size - at), 0);
        if (n < 0 && errno != EINTR)
            return PyErr_SetFromErrno(PyExc_OSError);
        at += n > 0 ? n : 0;
    }
    Py_RETURN_NONE;
}

/* gather(): the memory of the zygote into large pages; see large_page.h. */
static PyObject *gather(PyObject *self, PyObject *none)
{
    (void)self;
    (void)none;
    arenas_end();
    return PyBool_FromLong(large_page_gather(arenas_first(), arenas_last()));
}

/* confine(): from now on it can seal, and otherwise do what its copies can. */
static PyObject *confine(PyObject *self, PyObject *none)
{
    (void)self;
    (void)none;
    static struct filter base;
    base.len = seccomp_compile(base.code, SECCOMP_BASE, true);
    if (seccomp_apply(base.code, base.len) < 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    is_confined = true;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"prepare", prepare, METH_O, "Bind to the kernel that the copies have."},
    {"be_copy", be_copy, METH_O,
     "Be the kernel, at once; for those who test it without a sandbox."},
    {"confine", confine, METH_NOARGS, "Give up all calls that neither sealing nor a copy needs."},
    {"serve", serve, METH_O, "Make sandboxes, and be the kernel in each."},
    {"gather", gather, METH_NOARGS, "Put memory into large pages."},
    {"randomise", randomise, METH_VARARGS, "Fill memory with random bytes."},
    {"report", report, METH_VARARGS, "Tell the spawner: ready, or why not."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "cove_zygote", NULL, -1, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit_cove_zygote(void);
PyMODINIT_FUNC PyInit_cove_zygote(void)
{
    for (size_t i = 0; i < ARRAY_LEN(rests); i++)
        rests[i].len = seccomp_compile(rests[i].code, SECCOMP_REST, i == 1);
    arenas_begin();
    PyObject *made = PyModule_Create(&module);
    if (made && PyModule_AddIntConstant(made, "QUICK", QUICK_VERSION) < 0)
        Py_CLEAR(made);
    return made;
}
