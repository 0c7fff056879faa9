/* rootfs.c - image, /dev, /proc and one limited tmpfs for workspace, /tmp and /dev/shm */
/* SPDX-License-Identifier: Apache-2.0 */
#include "box/rootfs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/scoped.h"
#include "box/syscalls.h"

#define STAGE "/tmp" /* any directory: the new root lies on it until it is the root */

static int set_flags(int fd, uint64_t flags)
{
    struct mount_attr attr = {.attr_set = flags};
    return sys_mount_setattr(fd, &attr);
}

struct setting {
    const char *key;
    const char *value; /* NULL: a flag */
};

/* A new, detached mount of file system `type`. */
static int make_mount(const char *type, const struct setting *settings, size_t count,
                      unsigned flags)
{
    scoped_fd int fs = sys_fsopen(type, FSOPEN_CLOEXEC);
    if (fs < 0)
        return -1;
    for (size_t i = 0; i < count; i++) {
        unsigned how = settings[i].value ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG;
        if (sys_fsconfig(fs, how, settings[i].key, settings[i].value) < 0)
            return -1;
    }
    if (sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL) < 0)
        return -1;
    return sys_fsmount(fs, FSMOUNT_CLOEXEC, flags);
}

static int attach(int mount_fd, int dir_fd, const char *path)
{
    return sys_move_mount(mount_fd, dir_fd, path);
}

/* --- before the clone ------------------------------------------------------------------------ */

static const struct {
    const char *name;
    unsigned minor;
    unsigned major;
} devices[] = {
    {"null", 3, 1},   {"zero", 5, 1},    {"full", 7, 1},
    {"random", 8, 1}, {"urandom", 9, 1}, {"tty", 0, 5},
};

static const struct {
    const char *name;
    const char *target;
} dev_links[] = {
    {"ptmx", "pts/ptmx"},          {"fd", "/proc/self/fd"},       {"stdin", "/proc/self/fd/0"},
    {"stdout", "/proc/self/fd/1"}, {"stderr", "/proc/self/fd/2"},
};

static const char *const dev_dirs[] = {"shm", "pts"};

#define DEV_INODES (1 + ARRAY_LEN(devices) + ARRAY_LEN(dev_links) + ARRAY_LEN(dev_dirs))

/* Who may make no device nodes makes empty files, over which the host's own nodes are mounted: see
 * bind_devices(). */
static int fill_dev(int dev_fd)
{
    for (size_t i = 0; i < ARRAY_LEN(devices); i++) {
        dev_t dev = makedev(devices[i].major, devices[i].minor);
        if (mknodat(dev_fd, devices[i].name, S_IFCHR | 0666, dev) < 0 &&
            (errno != EPERM || mknodat(dev_fd, devices[i].name, S_IFREG | 0666, 0) < 0))
            return -1;
    }
    for (size_t i = 0; i < ARRAY_LEN(dev_links); i++) {
        if (symlinkat(dev_links[i].target, dev_fd, dev_links[i].name) < 0)
            return -1;
    }
    for (size_t i = 0; i < ARRAY_LEN(dev_dirs); i++) {
        if (mkdirat(dev_fd, dev_dirs[i], 0755) < 0)
            return -1;
    }
    return 0;
}

/* The directories of the storage that a sandbox may write to, and where it sees them. The workspace
 * lies on top of the storage's own mount point and so must come last. Beside them lies its /dev:
 * inodes of its own without a file system of its own, of which each costs every memory cgroup
 * something (docs/decisions/0017). */
static const struct {
    const char *name;
    mode_t mode;
    const char *seen_at[4];
} stores[] = {
    {"tmp", 01777, {"tmp"}},
    {"shm", 01777, {"dev/shm"}},
    {"workspace", 0700, {"data", "mnt/data", "workspace"}},
};

/* Nobody else has the mount yet: what is made with its final mode is seen by none before it has its
 * owner. */
static int fill_storage(int fd, uid_t owner)
{
    int status = 0;
    mode_t mask = umask(0);
    for (size_t i = 0; status == 0 && i < ARRAY_LEN(stores); i++) {
        if (mkdirat(fd, stores[i].name, stores[i].mode) < 0 ||
            fchownat(fd, stores[i].name, owner, owner, AT_SYMLINK_NOFOLLOW) < 0)
            status = -1;
    }
    if (status == 0) {
        scoped_fd int dev_fd =
            mkdirat(fd, "dev", 0755) < 0 ? -1 : openat(fd, "dev", O_PATH | O_DIRECTORY | O_CLOEXEC);
        status = dev_fd < 0 ? -1 : fill_dev(dev_fd);
    }
    umask(mask);
    return status;
}

static int make_storage(uint64_t disk_bytes, uint64_t inodes, uid_t owner, struct error *err)
{
    char size[32], nodes[32];
    snprintf(size, sizeof(size), "%" PRIu64, disk_bytes);
    snprintf(nodes, sizeof(nodes), "%" PRIu64, inodes + DEV_INODES);
    const struct setting settings[] = {{"size", size}, {"nr_inodes", nodes}, {"mode", "0755"}};
    scoped_fd int fd =
        make_mount("tmpfs", settings, ARRAY_LEN(settings), MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    if (fd < 0)
        return error_sys(err, "mount storage");
    if (fill_storage(fd, owner) < 0)
        return error_sys(err, "fill storage");
    return take_fd(&fd);
}

int rootfs_prepare_storage(struct rootfs *root, uint64_t disk_bytes, uint64_t inodes, uid_t owner,
                           struct error *err)
{
    int storage = make_storage(disk_bytes, inodes, owner, err);
    if (storage < 0)
        return -1;
    root->storage_fd = storage;
    return 0;
}

/* --- in the child ---------------------------------------------------------------------------- */

/* Rootless, device nodes cannot be made; the host's own are mounted over empty files instead. Read-
 * only: that keeps their times and modes, and a device can be written all the same. */
static int bind_device(int dev_fd, const char *name)
{
    char path[32];
    snprintf(path, sizeof(path), "/dev/%s", name);
    scoped_fd int node = sys_open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (node < 0 || set_flags(node, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC) < 0)
        return -1;
    return attach(node, dev_fd, name);
}

static int bind_devices(int dev_fd)
{
    struct stat st;
    for (size_t i = 0; i < ARRAY_LEN(devices); i++) {
        if (fstatat(dev_fd, devices[i].name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
            (S_ISREG(st.st_mode) && bind_device(dev_fd, devices[i].name) < 0))
            return -1;
    }
    return 0;
}

/* Attached before it gets mounts of its own, which only what is attached can have. */
static int finish_dev(int dev_fd, int root_fd)
{
    if (attach(dev_fd, root_fd, "dev") < 0 || bind_devices(dev_fd) < 0)
        return -1;
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC,
                              .attr_clr = MOUNT_ATTR_NODEV};
    return sys_mount_setattr(dev_fd, &attr);
}

/* Without storage. */
static int mount_bare_dev(int root_fd)
{
    static const struct setting settings[] = {
        {"size", "65536"}, {"nr_inodes", "64"}, {"mode", "0755"}};
    scoped_fd int dev = make_mount("tmpfs", settings, ARRAY_LEN(settings), MOUNT_ATTR_NOSUID);
    return dev < 0 || fill_dev(dev) < 0 ? -1 : finish_dev(dev, root_fd);
}

/* Of the storage, which is attached already. */
static int mount_dev(const struct rootfs *root)
{
    scoped_fd int dev = sys_open_tree(root->storage_fd, "dev", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    return dev < 0 ? -1 : finish_dev(dev, root->image_fd);
}

/* The kernel has 3,072 pseudo-terminals for all sandboxes together (4,096 and 1,024 kept for the
 * host), so each has a share. */
static int mount_pts(int root_fd)
{
    static const struct setting settings[] = {
        {"ptmxmode", "0666"}, {"mode", "0620"}, {"max", "32"}};
    scoped_fd int pts =
        make_mount("devpts", settings, ARRAY_LEN(settings), MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
    return pts < 0 ? -1 : attach(pts, root_fd, "dev/pts");
}

static int mount_proc(int root_fd)
{
    static const struct setting settings[] = {{"hidepid", "invisible"}, {"subset", "pid"}};
    scoped_fd int proc = make_mount("proc", settings, ARRAY_LEN(settings),
                                    MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
    return proc < 0 ? -1 : attach(proc, root_fd, "proc");
}

/* The storage is attached where the workspace will be: only of what is attached directories can be
 * cloned. */
static int mount_storage(const struct rootfs *root)
{
    return attach(root->storage_fd, root->image_fd, "workspace");
}

/* The workspace itself covers the storage. */
static int mount_stores(const struct rootfs *root)
{
    for (size_t i = 0; i < ARRAY_LEN(stores); i++) {
        for (const char *const *at = stores[i].seen_at; *at; at++) {
            scoped_fd int fd = sys_open_tree(root->storage_fd, stores[i].name,
                                             OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
            if (fd < 0 || attach(fd, root->image_fd, *at) < 0)
                return -1;
        }
    }
    return 0;
}

static int make_root(int root_fd)
{
    if (fchdir(root_fd) < 0)
        return -1;
    /* Old and new root on one directory: then the old one is on top, and is let go. */
    if (sys_pivot_root(".", ".") < 0 || sys_umount2(".", MNT_DETACH) < 0)
        return -1;
    return chdir("/");
}

/* Everything below the image, which is attached. The paths of this process still lead into the root
 * that it came with. */
static int mount_below(const struct rootfs *root, const char **step)
{
    *step = "mount /proc";
    if (mount_proc(root->image_fd) < 0)
        return -1;
    *step = "mount /dev";
    if (root->storage_fd < 0)
        return mount_bare_dev(root->image_fd);
    if (mount_storage(root) < 0 || mount_dev(root) < 0)
        return -1;
    *step = "mount /dev/pts";
    if (mount_pts(root->image_fd) < 0)
        return -1;
    *step = "mount workspace";
    if (mount_stores(root) < 0)
        return -1;
    *step = "mount packages";
    return root->packages_fd < 0 ? 0 : attach(root->packages_fd, root->image_fd, "packages");
}

static int mount_all(const struct rootfs *root, const char *where, const char **step)
{
    *step = "mount image";
    if (attach(root->image_fd, AT_FDCWD, where) < 0)
        return -1;
    umask(0);
    if (mount_below(root, step) < 0)
        return -1;
    umask(022);
    return 0;
}

int rootfs_enter(const struct rootfs *root, const char **step)
{
    *step = "make mounts private";
    if (sys_mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount_all(root, STAGE, step) < 0)
        return -1;
    *step = "change root";
    return make_root(root->image_fd);
}

/* The old root stays below the new one, and nothing leads there: what lies over the root of a mount
 * namespace is what ".." ends at. To pivot would ask the kernel to look at every process of the
 * machine, 2 ms with 8,000 of them, and to unmount would have it wait for all processors. */
int rootfs_cover(const struct rootfs *root, const char **step)
{
    if (mount_all(root, "/", step) < 0)
        return -1;
    *step = "change root";
    return fchdir(root->image_fd) < 0 || chroot(".") < 0 ? -1 : 0;
}

int rootfs_open_workspace(const struct rootfs *root)
{
    struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
    return sys_openat2(root->storage_fd, "workspace", &how);
}
