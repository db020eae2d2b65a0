/* examples/charlm_cuda/place_cuda.c - on the device of this slot. See
 * place.h. */
#include "place.h"

#include "code.h"
#include "gpu.h"

hvd_status_t place_open(void)
{
    hvd_device_info_t info = {.struct_size = sizeof(info)};
    int device = 0;

    HVD_TRY(hvd_device_info(&info));
    if (info.n_devices > 0) /* else hvd_device_set says what is missing */
        device = hvd_slot() % info.n_devices;
    HVD_TRY(hvd_device_set(device));
    gpu_open(device, (const char *)charlm_code);
    return HVD_OK;
}

hvd_status_t place_register(hvd_state_t *state, const char *name,
                            float *numbers, size_t count)
{
    return hvd_state_add_device(state, name, numbers, count * sizeof(*numbers),
                                NULL);
}
