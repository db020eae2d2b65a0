/* tests/driver/options_typed.h - a command line as it is typed, in a directory
 * of its own with a few files, for the tests of options. */
#ifndef TESTS_DRIVER_OPTIONS_TYPED_H
#define TESTS_DRIVER_OPTIONS_TYPED_H

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "elastic/driver/options.h"
#include "support.h"

enum { WORDS_MAX = 32, TEXT_MAX = 8192 };

static char dir[64];
static struct options o;
static char out[TEXT_MAX], err[TEXT_MAX], line[1024];
static char *words[WORDS_MAX + 1];
static int exit_status;

static inline void setup(void)
{
    static const char *const files[][2] = {
        {"ok.sh", "#!/bin/sh\n"},
        {"plain.sh", "#!/bin/sh\n"},
        {"hosts", "localhost slots=3\n"},
        {"bad", "localhost:1\na:b:c\n"},
        {"far", "node1:2\n"},
    };

    unsetenv("SLURM_JOB_ID"); /* an allocation around this is none of its */
    unsetenv("HVD_SLURM_JOB_NAME");
    strcpy(dir, "/tmp/hvd-options-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    ck_assert_int_eq(chdir(dir), 0);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        FILE *file = fopen(files[i][0], "w");

        ck_assert_ptr_nonnull(file);
        fputs(files[i][1], file);
        fclose(file);
    }
    ck_assert_int_eq(chmod("ok.sh", 0755), 0);
    ck_assert_int_eq(link("hosts", "link"), 0);
}

static inline void teardown(void)
{
    char command[128];

    ck_assert_int_eq(chdir("/"), 0);
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    ck_assert_int_eq(system(command), 0);
}

/* text is split at spaces; '' is an empty word. */
static inline bool parse(const char *text)
{
    FILE *to_out = fmemopen(out, sizeof(out), "w");
    FILE *to_err = fmemopen(err, sizeof(err), "w");
    int n = 1;
    bool ok;

    snprintf(line, sizeof(line), "%s", text);
    words[0] = (char *)(uintptr_t) "hvd-elastic";
    for (char *word = strtok(line, " "); word; word = strtok(NULL, " "))
        words[n++] = strcmp(word, "''") == 0 ? word + 2 : word;
    words[n] = NULL;
    ck_assert_int_lt(n, WORDS_MAX);
    out[0] = err[0] = '\0';
    exit_status = -1;
    ok = options_parse_to(n, words, &o, &exit_status, to_out, to_err);
    fclose(to_out);
    fclose(to_err);
    return ok;
}

#endif
