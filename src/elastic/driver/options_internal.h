/* elastic/driver/options_internal.h - the one table of options, of which
 * parsing (options.c) and what is printed of them (options_help.c) come. See
 * options.h.
 */
#ifndef ELASTIC_DRIVER_OPTIONS_INTERNAL_H
#define ELASTIC_DRIVER_OPTIONS_INTERNAL_H

#include "elastic/driver/options.h"

enum kind {
    KIND_COUNT,   /* uint32_t at offset, low..high */
    KIND_LIMIT,   /* int64_t, low..high */
    KIND_SECONDS, /* uint64_t microseconds, low..high in seconds */
    KIND_TEXT,    /* const char * */
    KIND_FLAG,    /* bool */
    KIND_COOLDOWN,
    KIND_ENV,
    KIND_LAUNCHER,
    KIND_LOG_LEVEL,
    KIND_VERBOSE,
    KIND_CHECK_BUILD,
    KIND_HELP_ENV,
    KIND_VERSION,
    KIND_HELP
};

struct options_row {
    const char *name;
    const char *alias;  /* horovodrun's second name, or NULL */
    const char *dashed; /* short form, shown in front: "-np", or NULL */
    const char *value;  /* its name in --help; NULL: takes none */
    enum kind kind;
    size_t offset;
    double low, high;
    const char *help; /* defaults in parentheses; NULL: few need it, --help
                         names it and no more */
};

extern const struct options_row options_table[]; /* [options_n_rows] */
extern const size_t options_n_rows;

/* The option that the unknown word `word` may mean, into text [max]: "-np" for
 * "--nproc". False: none comes to mind. */
bool options_near(const char *word, char *text, size_t max);

/* The word is an option of hvd-elastic, in full: "-np", "--hosts=a:1". */
bool options_is_option(const char *word);

void options_print_help(FILE *out);
void options_print_help_env(FILE *out);
void options_print_check_build(FILE *out);
void options_print_version(FILE *out);

#endif
