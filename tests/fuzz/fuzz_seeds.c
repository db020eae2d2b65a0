/* tests/fuzz/fuzz_seeds.c - writes one valid input per message type, and one
 * table, into the directory named by its argument: the corpus to start from. */
#include <stdio.h>

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

int main(int argc, char **argv)
{
    static uint8_t buf[1 << 16];
    int failed = 0;

    if (argc != 2) {
        fprintf(stderr, "usage: fuzz_seeds DIRECTORY\n");
        return 2;
    }
    for (size_t i = 0; i < n_samples; i++)
        failed |= write_seed(argv[1], message_type_name(samples[i].type), 0,
                             buf, codec_encode(&samples[i], buf, sizeof(buf)));
    failed |= write_seed(argv[1], "table", 1, buf,
                         table_encode(&sample_table, buf, sizeof(buf)));
    return failed;
}
