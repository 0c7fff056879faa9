/* caps.c - capability sets by the raw calls: a library would bring more code than it saves */
/* SPDX-License-Identifier: Apache-2.0 */
#include "box/caps.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int caps_drop_bounding(void)
{
    int cap = 0;
    while (prctl(PR_CAPBSET_DROP, cap) == 0)
        cap++;
    /* EINVAL marks the first number above the kernel's last capability. */
    return errno == EINVAL && cap > CAP_AUDIT_READ ? 0 : -1;
}

int caps_drop_all(void)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2] = {{0}};
    /* A kernel without ambient capabilities has none to clear. */
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 && errno != EINVAL)
        return -1;
    if (syscall(SYS_capset, &header, data) < 0)
        return -1;

    if (syscall(SYS_capget, &header, data) < 0)
        return -1;
    for (int i = 0; i < 2; i++) {
        if (data[i].effective | data[i].permitted | data[i].inheritable) {
            errno = EPERM;
            return -1;
        }
    }
    int cap = 0, has;
    while ((has = prctl(PR_CAPBSET_READ, cap)) == 0)
        cap++;
    if (has > 0 || errno != EINVAL) { /* still has one, or the kernel would not tell */
        errno = EPERM;
        return -1;
    }
    return 0;
}

int caps_keep(const int *kept, size_t count)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2] = {{0}};
    for (size_t i = 0; i < count; i++) {
        data[kept[i] / 32].effective |= 1u << kept[i] % 32;
        data[kept[i] / 32].permitted |= 1u << kept[i] % 32;
    }
    for (int cap = 0; prctl(PR_CAPBSET_READ, cap) >= 0; cap++) {
        bool is_kept = data[cap / 32].permitted & 1u << cap % 32;
        if (!is_kept && prctl(PR_CAPBSET_DROP, cap) < 0)
            return -1;
    }
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 && errno != EINVAL)
        return -1;
    return (int)syscall(SYS_capset, &header, data);
}

int caps_raise(void)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &header, data) < 0)
        return -1;
    for (int i = 0; i < 2; i++)
        data[i].effective = data[i].permitted;
    return (int)syscall(SYS_capset, &header, data);
}
