/* device/absent.c - the device of a house that was built without the headers of
 * CUDA and NCCL: there is none, and it says so. What is only called with a
 * device that is open is not called. */
#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"
#include "device/communicator.h"
#include "device/device.h"

static const char why[] = "built without CUDA and NCCL";

atomic_bool device_used;

_Noreturn static void absent(void)
{
    abort();
}

hvd_status_t device_set(int ordinal)
{
    (void)ordinal;
    return error_set(HVD_ERR_UNSUPPORTED, "%s", why);
}

void device_notice(int slot)
{
    (void)slot;
}

bool device_is_broken(void)
{
    return false;
}

hvd_status_t device_give_up(const char *words)
{
    (void)words;
    absent();
}

hvd_status_t device_look(const void *ptr, bool *device_p)
{
    (void)ptr;
    *device_p = false;
    return HVD_OK;
}

bool device_is_built(void)
{
    return false;
}

void device_inform(hvd_device_info_t *info)
{
    *info = (hvd_device_info_t){.struct_size = sizeof(*info), .device = -1};
    snprintf(info->reason, sizeof(info->reason), "%s", why);
}

hvd_status_t device_open(void)
{
    return error_set(HVD_ERR_UNSUPPORTED, "%s", why);
}

void device_close(void)
{
}

bool device_is_open(void)
{
    return false;
}

void device_uuid(uint8_t *uuid)
{
    (void)uuid;
    absent();
}

hvd_status_t device_mark(void *stream, bool ordered, void **mark_p)
{
    (void)stream;
    (void)ordered;
    (void)mark_p;
    absent();
}

void device_unmark(void *mark)
{
    (void)mark;
}

struct device_result *device_result_create(void)
{
    absent();
}

struct device_result *device_result_share(struct device_result *result)
{
    return result;
}

hvd_status_t device_result_follow(const struct device_result *result,
                                  void *stream)
{
    (void)result;
    (void)stream;
    absent();
}

void device_result_release(struct device_result *result)
{
    (void)result;
}

void device_post(struct device_task *task)
{
    (void)task;
    absent();
}

bool device_task_free(const struct device_task *task)
{
    (void)task;
    absent();
}

hvd_status_t device_task_result(const struct device_task *task)
{
    (void)task;
    absent();
}

void device_task_sleep(struct device_task *task)
{
    (void)task;
    absent();
}

void device_task_wake(struct device_task *task)
{
    (void)task;
    absent();
}

hvd_status_t device_await(struct device_task *task)
{
    (void)task;
    absent();
}

hvd_status_t device_alloc(size_t nbytes, void **ptr_p)
{
    (void)nbytes;
    (void)ptr_p;
    absent();
}

void device_free(void *ptr)
{
    HVD_ASSERT(ptr == NULL);
}

hvd_status_t device_pin(void *bytes, size_t nbytes)
{
    (void)bytes;
    (void)nbytes;
    absent();
}

void device_unpin(void *bytes)
{
    (void)bytes;
    absent();
}

hvd_status_t device_run(struct device_task *task, const struct verdict *verdict)
{
    (void)task;
    (void)verdict;
    absent();
}

hvd_status_t communicator_version(int *version_p)
{
    (void)version_p;
    return error_set(HVD_ERR_UNSUPPORTED, "%s", why);
}

hvd_status_t communicator_id(uint8_t *id)
{
    (void)id;
    absent();
}

hvd_status_t communicator_create(const struct communicator_config *config,
                                 struct communicator **c_p)
{
    (void)config;
    (void)c_p;
    absent();
}

hvd_status_t communicator_await(struct communicator *c,
                                const struct verdict *verdict)
{
    (void)c;
    (void)verdict;
    absent();
}

void communicator_cancel(struct communicator *c)
{
    (void)c;
    absent();
}

bool communicator_silence(struct communicator *c)
{
    (void)c;
    absent();
}

hvd_status_t communicator_confirm(struct communicator *c,
                                  const struct verdict *verdict)
{
    (void)c;
    (void)verdict;
    absent();
}

void communicator_release(struct communicator *c)
{
    HVD_ASSERT(c == NULL);
}
