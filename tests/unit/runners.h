/* runners.h - what there is to run, as the test wants it: no image is looked for */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "image/runner.h"

/* The runners of `conf`, as if the image of this name had it. */
void runners_add(struct runner_list *list, const char *image, const char *conf);

/* A kernel whose command is the runner's own. */
void runners_fill_kernel(struct runner_kernel *out, const struct runner *runner);
