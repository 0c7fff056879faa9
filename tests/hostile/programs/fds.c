/* B78: nothing of the host is open, and the working directory is what it says it is. */
#include "guard.h"

#include <dirent.h>

static void report_fd(int fd)
{
    char link[64], name[32], seen[512] = "?";
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    snprintf(name, sizeof name, "fd.%d", fd);
    ssize_t n = readlink(link, seen, sizeof seen - 1);
    if (n > 0)
        seen[n] = '\0';
    fact(name, "%s", seen);
}

static void walk_up(void)
{
    /* A leaked directory as the working directory would let ".." leave the root. */
    struct stat here, root;
    if (stat(".", &here) == 0 && stat("/workspace", &root) == 0)
        fact("cwd.same", "%d", here.st_ino == root.st_ino && here.st_dev == root.st_dev);
    char path[256] = "";
    for (int i = 0; i < 40; i++)
        strcat(path, "../");
    if (stat(path, &here) == 0 && stat("/", &root) == 0)
        fact("root.same", "%d", here.st_ino == root.st_ino && here.st_dev == root.st_dev);
}

int main(void)
{
    guard();
    /* Every number is tried: a closed /proc or a hidden entry cannot hide one. */
    for (int fd = 0; fd < 1 << 20; fd++) {
        if (fcntl(fd, F_GETFD) != -1)
            report_fd(fd);
    }
    for (int fd = 3; fd < 64; fd++) {
        char path[64], name[32];
        snprintf(path, sizeof path, "/proc/self/fd/%d/", fd);
        snprintf(name, sizeof name, "chdir.%d", fd);
        TRY(name, chdir(path));
    }
    walk_up();
    return finish();
}
