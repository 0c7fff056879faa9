/* veil.c - overlays with two lower directories and nothing above */
/* SPDX-License-Identifier: Apache-2.0 */
#include "box/veil.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/scoped.h"
#include "box/syscalls.h"

#define PLACE "/tmp"

/* What mountinfo shows. The second one is needed to have an overlay that nobody can write to; the
 * first is looked up in the working directory, so that it is the same for all. */
static const char *const lowers[] = {
    [VEIL_IMAGE] = "image:" PLACE "/base",
    [VEIL_LAYER] = "image:" PLACE "/none",
};

#define SEALED (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

/* Below every image lie the mount point of package layers and where Node looks for modules from any
 * directory: so images need not know of them. */
int veil_prepare(struct error *err)
{
    if (sys_mount("none", PLACE, "tmpfs", MS_NOSUID | MS_NODEV, "size=64k,mode=0755") < 0 ||
        mkdir(PLACE "/none", 0755) < 0 || mkdir(PLACE "/base", 0755) < 0 ||
        mkdir(PLACE "/base/packages", 0755) < 0 ||
        symlink("packages/node_modules", PLACE "/base/node_modules") < 0 ||
        mkdir(PLACE "/veils", 0755) < 0)
        return error_sys(err, "prepare mounts");
    return 0;
}

bool veil_is_known(void)
{
    scoped_fd int fs = sys_fsopen("overlay", FSOPEN_CLOEXEC);
    return fs >= 0 || errno != ENODEV;
}

/* An overlay looks its directories up by name, so the tree has to be mounted somewhere; and a mount
 * can be cloned only while it is. */
static int attach_tree(int tree_fd, int dir_fd)
{
    struct mount_attr attr = {.attr_set = SEALED};
    scoped_fd int tree =
        sys_open_tree(tree_fd, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (tree < 0 || sys_mount_setattr(tree, &attr) < 0 || mkdirat(dir_fd, "image", 0755) < 0)
        return -1;
    return sys_move_mount(tree, dir_fd, "image");
}

int veil_open(struct veil *out, enum veil_kind kind, int tree_fd, struct error *err)
{
    char path[] = PLACE "/veils/XXXXXX";
    if (!mkdtemp(path))
        return error_sys(err, "make a place for an image");
    scoped_fd int dir_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0 || attach_tree(tree_fd, dir_fd) < 0)
        return error_sys(err, "attach image mount");
    *out = (struct veil){.kind = kind, .dir_fd = take_fd(&dir_fd)};
    return 0;
}

/* `userxattr` is what unprivileged overlays need, and harmless. */
static int make_overlay(const struct veil *veil)
{
    scoped_fd int fs = sys_fsopen("overlay", FSOPEN_CLOEXEC);
    if (fs < 0 || fchdir(veil->dir_fd) < 0 ||
        sys_fsconfig(fs, FSCONFIG_SET_STRING, "lowerdir", lowers[veil->kind]) < 0 ||
        sys_fsconfig(fs, FSCONFIG_SET_FLAG, "userxattr", NULL) < 0 ||
        sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL) < 0)
        return -1;
    return sys_fsmount(fs, FSMOUNT_CLOEXEC, SEALED);
}

int veil_mount(const struct veil *veil, int *out, struct error *err)
{
    int fd = make_overlay(veil);
    if (fd < 0 && errno == ENODEV) /* see veil_is_known(); nothing else answers so */
        fd = sys_open_tree(veil->dir_fd, "image", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (fd < 0)
        return error_sys(err, "make image overlay");
    *out = fd;
    return 0;
}

void veil_close(struct veil *veil)
{
    char own[32], path[PATH_MAX], image[PATH_MAX + 8];
    if (veil->dir_fd < 0)
        return;
    snprintf(own, sizeof(own), "/proc/self/fd/%d", veil->dir_fd);
    ssize_t len = readlink(own, path, sizeof(path) - 1);
    if (len > 0) {
        path[len] = '\0';
        snprintf(image, sizeof(image), "%s/image", path);
        sys_umount2(image, MNT_DETACH);
        (void)!rmdir(image);
        (void)!rmdir(path);
    }
    scoped_close_fd(&veil->dir_fd);
    veil->dir_fd = -1;
}
