/* device/symbols.h - a table of functions out of a library that was opened at
 * run time. Threads: any. */
#ifndef DEVICE_SYMBOLS_H
#define DEVICE_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>

#include <hvd/status.h>

struct symbol {
    const char *name;
    size_t offset; /* of its pointer in the table */
    bool needed;   /* else NULL is left where the library has none */
};

/* HVD_ERR_UNSUPPORTED names the first that is needed and missing. */
hvd_status_t symbols_find(void *handle, const char *library,
                          const struct symbol *symbols, size_t n,
                          void *table) HVD_MUST_CHECK;

#endif
