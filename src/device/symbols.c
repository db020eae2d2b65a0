/* device/symbols.c - see symbols.h. */
#include "device/symbols.h"

#include <dlfcn.h>
#include <string.h>

#include "base/error.h"

hvd_status_t symbols_find(void *handle, const char *library,
                          const struct symbol *symbols, size_t n, void *table)
{
    for (size_t i = 0; i < n; i++) {
        const struct symbol *s = &symbols[i];
        void *function = dlsym(handle, s->name);

        if (function == NULL && s->needed)
            return error_set(HVD_ERR_UNSUPPORTED, "%s has no %s", library,
                             s->name);
        memcpy((char *)table + s->offset, &function, sizeof(function));
    }
    return HVD_OK;
}
