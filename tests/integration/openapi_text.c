/* openapi_text.c - prints what /openapi.json answers; for tests that need no server */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "api/openapi.h"

int main(void)
{
    scoped(openapi) struct openapi *document = openapi_new(api_groups);
    return fwrite(document->text, 1, document->len, stdout) == document->len ? 0 : 1;
}
