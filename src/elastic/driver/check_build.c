/* elastic/driver/check_build.c - --check-build: what this build can do, and
 * what it has found on this machine. See options_internal.h. */
#include "base/version.h"
#include "device/device.h"
#include "elastic/driver/options_internal.h"

static void print_cuda(FILE *out, const hvd_device_info_t *info)
{
    if (info->driver_version == 0)
        fprintf(out, "CUDA:        not here (%s)\n", info->reason);
    else
        fprintf(out, "CUDA:        driver %d.%d, %d device%s\n",
                info->driver_version / 1000, info->driver_version % 1000 / 10,
                info->n_devices, info->n_devices == 1 ? "" : "s");
}

static void print_nccl(FILE *out, const hvd_device_info_t *info)
{
    int version = info->nccl_version;

    if (version > 0)
        fprintf(out, "NCCL:        %d.%d.%d (%s)\n", version / 10000,
                version / 100 % 100, version % 100, info->nccl_library);
    else
        fprintf(out, "NCCL:        not here%s%s%s\n",
                info->driver_version > 0 ? " (" : "",
                info->driver_version > 0 ? info->reason : "",
                info->driver_version > 0 ? ")" : "");
}

void options_print_check_build(FILE *out)
{
    hvd_device_info_t info;

    device_inform(&info);
    fprintf(out,
            "hvd-elastic " VERSION_RELEASE "%s\n\n"
            "launchers:   local, ssh, slurm\n"
            "transports:  shared memory, tcp%s\n"
            "memory:      host%s\n"
            "control:     tcp, encrypted (CURVE)\n",
            version_commit, device_is_built() ? ", nccl" : "",
            device_is_built() ? ", device" : "");
    print_cuda(out, &info);
    print_nccl(out, &info);
}
