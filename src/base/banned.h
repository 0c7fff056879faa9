/* banned.h - calls that we never want are compile errors; every .c of ours gets it by -include */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The C library must declare these before they are poisoned. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC poison strcpy strcat sprintf vsprintf strncpy strncat strtok atoi atol atoll
#pragma GCC poison system popen gets mktemp tmpnam
