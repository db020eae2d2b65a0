/* tests/fuzz/fuzz_seeds.c - writes one valid input per message type, and one
 * table, into the directory named by its argument: the corpus to start from.
 * With "journal" before it: entries of a driver's journal, a file of them. */
#include <stdio.h>
#include <string.h>

#include "driver/journal_samples.h"
#include "elastic/driver/journal.h"
#include "elastic/wire/codec.h"
#include "samples.h"

static int write_seed(const char *dir, const char *name, uint8_t kind,
                      const uint8_t *bytes, long nbytes)
{
    char path[4096];
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    f = nbytes < 0 ? NULL : fopen(path, "wb");
    if (!f)
        return 1;
    putc(kind, f);
    fwrite(bytes, 1, (size_t)nbytes, f);
    return fclose(f) != 0;
}

static int write_messages(const char *dir)
{
    static uint8_t buf[1 << 16];
    struct assign_table base = sample_table, table = sample_table;
    int failed = 0;

    for (size_t i = 0; i < n_samples; i++)
        failed |= write_seed(dir, message_type_name(samples[i].type), 0, buf,
                             codec_encode(&samples[i], buf, sizeof(buf)));
    failed |= write_seed(dir, "table", 1, buf,
                         table_encode(&sample_table, buf, sizeof(buf)));
    base.generation = SAMPLE_GENERATION;
    table.n_entries--;
    failed |= write_seed(dir, "table_change", 1, buf,
                         table_encode_change(&table, &base, buf, sizeof(buf)));
    return failed;
}

static int write_journal(const char *dir)
{
    static uint8_t buf[1 << 16], file[1 << 16];
    long n, n_file = 0;
    char name[32];
    int failed = 0;

    for (size_t i = 0; i < n_journal_samples; i++) {
        snprintf(name, sizeof(name), "entry-%zu", i);
        n = entry_encode(&journal_samples[i], buf, sizeof(buf));
        failed |= write_seed(dir, name, 0, buf, n);
        n_file += journal_frame(&journal_samples[i], file + n_file,
                                sizeof(file) - (size_t)n_file);
    }
    return failed | write_seed(dir, "file", 1, file, n_file);
}

int main(int argc, char **argv)
{
    if (argc == 2)
        return write_messages(argv[1]);
    if (argc == 3 && strcmp(argv[1], "journal") == 0)
        return write_journal(argv[2]);
    fprintf(stderr, "usage: fuzz_seeds [journal] DIRECTORY\n");
    return 2;
}
