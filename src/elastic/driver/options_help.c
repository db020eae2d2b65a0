/* elastic/driver/options_help.c - what hvd-elastic says of itself: --help and
 * its like. See options_internal.h. */
#include <string.h>

#include "base/version.h"
#include "elastic/driver/options_internal.h"

static void print_row(FILE *out, const struct options_row *row)
{
    enum { COLUMN = 39 };
    int n = fprintf(out, "  %s%s--%s%s%s", row->dashed ? row->dashed : "",
                    row->dashed ? ", " : "", row->name, row->value ? " " : "",
                    row->value ? row->value : "");

    fprintf(out, "%*s%s\n", n < COLUMN ? COLUMN - n : 1, "", row->help);
}

/* The names of the others, in lines of 80. */
static void print_rest(FILE *out)
{
    enum { WIDTH = 79 };
    size_t column = WIDTH;

    fputs("\nhvd-elastic(1) tells of these as well:", out);
    for (size_t i = 0; i < options_n_rows; i++) {
        size_t n = strlen(options_table[i].name) + 3;

        if (options_table[i].help)
            continue;
        if (column + n > WIDTH) {
            fputs("\n ", out);
            column = 1;
        }
        column += (size_t)fprintf(out, " --%s", options_table[i].name);
    }
    fputs("\n", out);
}

void options_print_help(FILE *out)
{
    fputs("usage: hvd-elastic [options] [--] program [argument ...]\n"
          "       hvd-elastic --resume DIR [--take-over] | --standby DIR\n"
          "Runs a program on all hosts and goes on when hosts and workers come "
          "and go.\n\n",
          out);
    for (size_t i = 0; i < options_n_rows; i++)
        if (options_table[i].help)
            print_row(out, &options_table[i]);
    print_rest(out);
    fputs("\nSeconds may have fractions. Exit status: 0 success, 1 the job "
          "failed, 2 usage,\n3 another driver has taken over.\n",
          out);
}

void options_print_help_env(FILE *out)
{
    fputs(
        "Environment of a worker, set by hvd-elastic and read by libhvd; a "
        "program that\nruns without it is a world of one.\n\n"
        "  HVD_DRIVER       endpoint of the driver\n"
        "  HVD_JOB          number of the job\n"
        "  HVD_HOST         name of the host, as in discovery\n"
        "  HVD_SLOT         index of the slot on the host, from 0\n"
        "  HVD_WORKER       number of the worker, never used twice\n"
        "  HVD_ADDRESS      addresses its data connections bind to, the\n"
        "                   preferred one first, with commas between\n"
        "  HVD_DATA_PORTS   the job's --data-ports LOW-HIGH\n"
        "  HVD_SECRET_FD    descriptor of its token\n"
        "  HVD_LIFELINE_FD  descriptor that ends with its agent\n"
        "  HVD_PASSED       which files these two are\n"
        "  HVD_CLAIM_SOCKET where its agent passes them once more\n"
        "  HVD_ROBUST_FD    descriptor of a lock whose end tells its agent\n"
        "                   at once that it dies\n"
        "  HVD_JOB_DIR      the job's --job-dir DIR\n"
        "  HVD_TIMELINE     the job's --timeline FILE\n\n"
        "Set by you (here, or with -x), equal for all workers:\n\n"
        "  HVD_LOG_LEVEL      of libhvd: error, warn, info, debug or trace\n"
        "  HVD_TRANSPORT      auto: shared memory on a host, or tcp\n"
        "  HVD_LOCAL_BUFFERS  measured, staged or attached: how buffers that\n"
        "                     are not from hvd_alloc are read on a host\n"
        "  HVD_TCP_CONNECTIONS  1 to 8: between two ranks, for large\n"
        "                     messages\n"
        "  HVD_TCP_CONGESTION  congestion control between hosts, as reno or\n"
        "                     cubic; the host's own\n"
        "  HVD_ALGORITHM      as ring, or allreduce:halving,broadcast:chain\n"
        "  HVD_FUSION_THRESHOLD  as --fusion-threshold, which counts for more\n"
        "  HVD_CACHE_CAPACITY  as --cache-capacity, likewise\n"
        "  HVD_AUTOTUNE, HVD_AUTOTUNE_LOG  1, as --autotune; a file\n"
        "  HVD_VERIFY_STATE   as --verify-state, which counts for more\n"
        "  HVD_SIMD           auto, scalar, avx2, avx512 or neon\n"
        "  HVD_NCCL_LIBRARY   the file of NCCL\n"
        "  HVD_DEVICE_SYNC    auto, nccl or host: how newcomers get what a\n"
        "                     state has on GPUs\n"
        "  HVD_DEVICE_SHARED  1: ranks of NCCL may share a GPU, for checks\n"
        "  HVD_STDOUT_BUFFERING  line: hvd_init makes stdout line-buffered;\n"
        "                     block: it stays as it is\n",
        out);
}

void options_print_version(FILE *out)
{
    fprintf(out, "hvd-elastic " HVD_VERSION "%s\n", version_commit);
}
