/* scoped.h - owned locals end by themselves; ownership leaves through take_fd() and take_ptr() */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static inline void scoped_close_fd(int *fd)
{
    if (*fd >= 0) {
        int saved = errno;
        close(*fd); /* never retried: on Linux the fd is gone either way */
        errno = saved;
    }
}

static inline void scoped_free_ptr(void *p)
{
    int saved = errno;
    free(*(void **)p);
    errno = saved;
}

#define scoped_fd   __attribute__((cleanup(scoped_close_fd)))
#define scoped_free __attribute__((cleanup(scoped_free_ptr)))

/* SCOPED_DEFINE(box) in box.h lets callers write: scoped(box) struct box *b = NULL; */
#define SCOPED_DEFINE(type)                                                                        \
    static inline void scoped_##type##_free(struct type **p)                                       \
    {                                                                                              \
        int saved = errno;                                                                         \
        if (*p)                                                                                    \
            type##_free(*p);                                                                       \
        errno = saved;                                                                             \
    }
#define scoped(type) __attribute__((cleanup(scoped_##type##_free)))

static inline int take_fd(int *fd)
{
    int taken = *fd;
    *fd = -1;
    return taken;
}

#define take_ptr(p)                                                                                \
    ({                                                                                             \
        __typeof__(*(p)) taken_ = *(p);                                                            \
        *(p) = NULL;                                                                               \
        taken_;                                                                                    \
    })
