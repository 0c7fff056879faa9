/* replay.c - runs a fuzz target on the files of its corpus and of past findings, without libFuzzer
 *
 * Arguments: the corpus, which must hold something, and other folders, which need not exist. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "base/scoped.h"
#include "fuzz.h"

#define INPUT_MAX_BYTES (1 * MIB)

/* 0, or -1 when the file cannot be read. */
static int replay_file(int dir_fd, const char *name)
{
    scoped_fd int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
    scoped_free uint8_t *room = xmalloc(INPUT_MAX_BYTES);
    ssize_t n = fd < 0 ? -1 : fd_read_full(fd, room, INPUT_MAX_BYTES);
    if (n < 0) {
        perror(name);
        return -1;
    }
    /* Exactly as large as the input, so that a sanitizer sees a read past its end. */
    scoped_free uint8_t *data = xmalloc((size_t)n + (n == 0));
    for (ssize_t i = 0; i < n; i++)
        data[i] = room[i];
    LLVMFuzzerTestOneInput(data, (size_t)n);
    return 0;
}

/* How many files were replayed, or -1. */
static int replay_dir(const char *path)
{
    DIR *dir = opendir(path);
    if (!dir)
        return 0;
    int count = 0;
    struct dirent *entry;
    while (count >= 0 && (entry = readdir(dir))) {
        if (entry->d_name[0] != '.')
            count = replay_file(dirfd(dir), entry->d_name) < 0 ? -1 : count + 1;
    }
    closedir(dir);
    return count;
}

int main(int argc, char **argv)
{
    int total = 0;
    for (int i = 1; i < argc; i++) {
        int count = replay_dir(argv[i]);
        if (count < 0 || (i == 1 && count == 0)) {
            fprintf(stderr, "replay: nothing to read in '%s'\n", argv[i]);
            return 1;
        }
        total += count;
    }
    printf("replayed %d inputs\n", total);
    return 0;
}
