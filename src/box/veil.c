/* veil.c - overlay with two lower directories and nothing above */
/* SPDX-License-Identifier: Apache-2.0 */
#include "box/veil.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/scoped.h"
#include "box/syscalls.h"

#define PLACE "/tmp"

/* What mountinfo shows. The second one is needed to have an overlay that nobody can write to. */
static const char *const lowers[] = {
    [VEIL_IMAGE] = PLACE "/image:" PLACE "/base",
    [VEIL_LAYER] = PLACE "/image:" PLACE "/none",
};

#define SEALED (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

/* Below every image lie the mount point of package layers and where Node looks for modules from any
 * directory: so images need not know of them. */
int veil_prepare(struct error *err)
{
    if (sys_mount("none", PLACE, "tmpfs", MS_NOSUID | MS_NODEV, "size=64k,mode=0755") < 0 ||
        mkdir(PLACE "/image", 0755) < 0 || mkdir(PLACE "/none", 0755) < 0 ||
        mkdir(PLACE "/base", 0755) < 0 || mkdir(PLACE "/base/packages", 0755) < 0 ||
        symlink("packages/node_modules", PLACE "/base/node_modules") < 0 ||
        mkdir(PLACE "/veils", 0755) < 0)
        return error_sys(err, "prepare mounts");
    return 0;
}

/* With the tree at /tmp/image. `userxattr` is what unprivileged overlays need, and harmless. */
static int make_overlay(enum veil_kind kind)
{
    scoped_fd int fs = sys_fsopen("overlay", FSOPEN_CLOEXEC);
    if (fs < 0 || sys_fsconfig(fs, FSCONFIG_SET_STRING, "lowerdir", lowers[kind]) < 0 ||
        sys_fsconfig(fs, FSCONFIG_SET_FLAG, "userxattr", NULL) < 0 ||
        sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL) < 0)
        return -1;
    return sys_fsmount(fs, FSMOUNT_CLOEXEC, SEALED);
}

/* A mount can be cloned only while it is attached somewhere in our namespace. */
static int attach_veil(int fd)
{
    char path[] = PLACE "/veils/XXXXXX";
    if (!mkdtemp(path))
        return -1;
    return sys_move_mount(fd, AT_FDCWD, path);
}

int veil_new(int *out, enum veil_kind kind, int tree_fd, struct error *err)
{
    struct mount_attr attr = {.attr_set = SEALED};
    scoped_fd int tree =
        sys_open_tree(tree_fd, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (tree < 0 || sys_mount_setattr(tree, &attr) < 0)
        return error_sys(err, "clone image mount");
    /* The last tree's: its overlay holds it by itself. Not detached right away, since that waits
     * for the kernel's readers, and most spawners serve one image. */
    sys_umount2(PLACE "/image", MNT_DETACH);
    if (sys_move_mount(tree, AT_FDCWD, PLACE "/image") < 0)
        return error_sys(err, "attach image mount");
    scoped_fd int overlay = make_overlay(kind);
    if (overlay < 0 && errno != ENODEV) /* the kernel knows what an overlay is */
        return error_sys(err, "make image overlay");
    int *veil = overlay >= 0 ? &overlay : &tree;
    if (attach_veil(*veil) < 0) /* the tree moves away from /tmp/image, for the next one */
        return error_sys(err, "attach image mount");
    *out = take_fd(veil);
    return 0;
}

void veil_free(int fd)
{
    char path[32];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    sys_umount2(path, MNT_DETACH);
    close(fd);
}
