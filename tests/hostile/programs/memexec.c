/* B83: a native program that exists in no file. It may run, and is confined all the same. Where
 * memory files are refused (nothing would count them), it runs from its own file. */
#include "guard.h"

#include <sys/mman.h>

extern char **environ;

int main(int argc, char **argv)
{
    guard();
    if (argc > 1 && strcmp(argv[1], "inner") == 0) {
        TRY("inner.unshare", syscall(SYS_unshare, 0x10000000));
        TRY("inner.mount", syscall(SYS_mount, "none", "/tmp", "tmpfs", 0, ""));
        TRY("inner.ptrace", syscall(SYS_ptrace, 16, 1, 0, 0));
        TRY("inner.bpf", syscall(SYS_bpf, 0, 0, 0));
        TRY("inner.socket_alg", syscall(SYS_socket, 38, 5, 0));
        TRY("inner.keyctl", syscall(SYS_keyctl, 0, -3, 1));
        return finish();
    }
    static char block[1 << 16];
    int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    int mem = memfd_create("program", MFD_CLOEXEC);
    char *inner[] = {"memory", "inner", NULL};
    if (mem < 0) {
        execve("/proc/self/exe", inner, environ);
        return 1;
    }
    ssize_t n;
    while ((n = read(self, block, sizeof block)) > 0)
        if (write(mem, block, (size_t)n) != n)
            return 1;
    syscall(SYS_execveat, mem, "", inner, environ, AT_EMPTY_PATH);
    say("execveat", -1);
    fexecve(mem, inner, environ);
    say("fexecve", -1);
    return finish();
}
