/* runners.c - what there is to run, as the test wants it: no image is looked for */
/* SPDX-License-Identifier: Apache-2.0 */
#include "runners.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "check.h"

void runners_add(struct runner_list *list, const char *image, const char *conf)
{
    struct error err;
    char *dir = check_temp_dir(), *file = check_temp_file(dir, conf);
    scoped_fd int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    size_t before = list->count;
    assert_int_equal(runner_list_parse(list, fd, strrchr(file, '/') + 1, &err), 0);
    for (size_t i = before; i < list->count; i++)
        list->items[i].image = xstrdup(image);
    free(file);
    check_remove_dir(dir);
}

void runners_fill_kernel(struct runner_kernel *out, const struct runner *runner)
{
    *out = (struct runner_kernel){0};
    out->command.items = xcalloc(2, sizeof(char *));
    out->command.items[out->command.count++] = xstrdup(runner->command.items[0]);
}
