/* runner_json.h - the languages that there are, as every door tells them */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "codec/json.h"
#include "core/catalog.h"

json_t *runner_json_list(const struct catalog *catalog); /* new: the shape "RunnerList" */
