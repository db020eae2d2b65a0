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

    fputs("\nMore options (see hvd-elastic(1)):", out);
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
          "Runs a training program on changing hosts; survivors of a lost "
          "worker go on.\n\n",
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
        "hvd-elastic sets these variables for workers, and libhvd reads them. "
        "A program\nwithout them is a world of one.\n\n"
        "  HVD_DRIVER       endpoint of the driver\n"
        "  HVD_JOB          number of the job\n"
        "  HVD_HOST         name of the host, as in discovery\n"
        "  HVD_SLOT         index of the slot on the host, from 0\n"
        "  HVD_WORKER       number of the worker, never used twice\n"
        "  HVD_ADDRESS      addresses of its data connections, separated\n"
        "                   by commas, the preferred one first\n"
        "  HVD_DATA_PORTS   the job's --data-ports LOW-HIGH\n"
        "  HVD_SECRET_FD    descriptor of its token\n"
        "  HVD_LIFELINE_FD  descriptor that ends with its agent\n"
        "  HVD_PASSED       device and inode of these two descriptors\n"
        "  HVD_CLAIM_SOCKET socket by which its agent passes them again\n"
        "  HVD_ROBUST_FD    descriptor of a lock by which its agent\n"
        "                   notices its death at once\n"
        "  HVD_JOB_DIR      the job's --job-dir DIR\n"
        "  HVD_TIMELINE     the job's --timeline FILE\n\n"
        "You set these (in the environment of hvd-elastic, or with -x), equal "
        "for all\nworkers:\n\n"
        "  HVD_LOG_LEVEL      of libhvd: error, warn, info, debug or trace\n"
        "  HVD_TRANSPORT      auto: shared memory on a host, or tcp\n"
        "  HVD_LOCAL_BUFFERS  measured, staged or attached: how buffers that\n"
        "                     are not from hvd_alloc are read on a host\n"
        "  HVD_TCP_CONNECTIONS  1 to 8: between two ranks, for large\n"
        "                     messages\n"
        "  HVD_TCP_CONGESTION  congestion control between hosts, e.g. reno\n"
        "                     or cubic; default: that of the host\n"
        "  HVD_ALGORITHM      e.g. ring, or allreduce:halving,broadcast:chain\n"
        "  HVD_FUSION_THRESHOLD  as --fusion-threshold, which takes "
        "precedence\n"
        "  HVD_CACHE_CAPACITY  as --cache-capacity, likewise\n"
        "  HVD_AUTOTUNE, HVD_AUTOTUNE_LOG  1, as --autotune; a file\n"
        "  HVD_VERIFY_STATE   as --verify-state, which takes precedence\n"
        "  HVD_SIMD           auto, scalar, avx2, avx512 or neon\n"
        "  HVD_NCCL_LIBRARY   the file of NCCL\n"
        "  HVD_DEVICE_SYNC    auto, nccl or host: how newcomers receive the\n"
        "                     part of a state that is on GPUs\n"
        "  HVD_DEVICE_SHARED  1: ranks of NCCL may share a GPU, for tests\n"
        "  HVD_STDOUT_BUFFERING  line: hvd_init makes stdout line-buffered;\n"
        "                     block: stdout is left alone\n",
        out);
}

void options_print_version(FILE *out)
{
    fprintf(out, "hvd-elastic " VERSION_RELEASE "%s\n", version_commit);
}
