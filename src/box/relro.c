/* relro.c - the segment is found in the program's own headers */
/* SPDX-License-Identifier: Apache-2.0 */
#include "box/relro.h"

#include <link.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* Whole pages only: the linker ends the segment at one, and begins it wherever. */
static int protect(struct dl_phdr_info *info, size_t size, void *ctx)
{
    (void)size;
    int *result = ctx;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        if (h->p_type != PT_GNU_RELRO)
            continue;
        uintptr_t start = info->dlpi_addr + h->p_vaddr;
        uintptr_t first = start & ~(page - 1);
        uintptr_t last = (start + h->p_memsz) & ~(page - 1);
        *result = mprotect((void *)first, last - first, PROT_READ);
    }
    return 1; /* the program itself comes first, and is all that is wanted */
}

int relro_protect(void)
{
    int result = 0;
    dl_iterate_phdr(protect, &result);
    return result;
}
