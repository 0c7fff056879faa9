/* curl_library.c - one dlopen(), one table */
/* SPDX-License-Identifier: Apache-2.0 */
#include "http/curl_library.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "base/memory.h"

#define FILE_NAME "libcurl.so.4"
#define PACKAGE   "libcurl4"

static const struct {
    const char *name;
    size_t offset;
} calls[] = {
#define X(name) {"curl_" #name, offsetof(struct curl_library, name)},
    CURL_CALLS(X)
#undef X
};

static int fill(struct curl_library *library, struct error *err)
{
    for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
        void *address = dlsym(library->handle, calls[i].name);
        if (!address)
            return error_set(err, ERROR_UNAVAILABLE, "%s has no '%s'", FILE_NAME, calls[i].name);
        *(void **)((char *)library + calls[i].offset) = address;
    }
    if (library->global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return error_set(err, ERROR_UNAVAILABLE, "%s does not start", FILE_NAME);
    return 0;
}

int curl_library_open(struct curl_library **out, struct error *err)
{
    scoped(curl_library) struct curl_library *library = xcalloc(1, sizeof(*library));
    library->handle = dlopen(FILE_NAME, RTLD_NOW | RTLD_LOCAL);
    if (!library->handle) {
        error_set(err, ERROR_UNAVAILABLE, "%s cannot be loaded: %s", FILE_NAME, dlerror());
        return error_hint(err, "install the package " PACKAGE);
    }
    if (fill(library, err) < 0)
        return error_hint(err, "install the package " PACKAGE ", version 7.85 or later");
    *out = take_ptr(&library);
    return 0;
}

void curl_library_free(struct curl_library *library)
{
    free(library);
}
