/* A22: a chain of directories far deeper than any path can name. */
#include "guard.h"

int main(int argc, char **argv)
{
    guard();
    int want = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 100000, got = 0;
    if (argc > 2 && chdir(argv[2]) != 0)
        return 1;
    for (; got < want; got++) {
        if (mkdir("d", 0700) != 0 || chdir("d") != 0)
            break;
        if (got % 1000 == 0)
            fact("depth", "%d", got);
    }
    int error = got < want ? errno : 0;
    fact("depth", "%d", got);
    say_errno("end", error);
    return finish();
}
