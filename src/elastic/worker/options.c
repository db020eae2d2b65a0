/* elastic/worker/options.c - see options.h. */
#include "elastic/worker/options.h"

#include "base/error.h"
#include "base/struct_size.h"
#include "collectives/reduce/scale.h"

static hvd_status_t refuse(const char *field, const char *why)
{
    return error_set(HVD_ERR_INVALID, "options.%s: %s", field, why);
}

static hvd_status_t copy(const hvd_options_t *options, hvd_options_t *own)
{
    HVD_TRY(error_prefix(
        struct_adopt(own, sizeof(*own), options, options->struct_size),
        "options"));
    if (own->prescale == 0 && own->postscale == 0)
        return error_set(HVD_ERR_INVALID,
                         "options: not initialised with HVD_OPTIONS_INIT: both "
                         "scales are 0");
    return HVD_OK;
}

static hvd_status_t check_values(const hvd_options_t *o)
{
    if ((o->flags & ~(uint64_t)HVD_STREAM_ORDERED) != 0)
        return refuse("flags", "an unknown flag");
    if (o->memory < HVD_MEMORY_AUTO || o->memory > HVD_MEMORY_DEVICE)
        return refuse("memory", "an unknown value");
    if (o->wire_dtype != HVD_DTYPE_SAME && o->wire_dtype != HVD_FLOAT16 &&
        o->wire_dtype != HVD_BFLOAT16)
        return refuse("wire_dtype", "HVD_FLOAT16, HVD_BFLOAT16 or "
                                    "HVD_DTYPE_SAME");
    return HVD_OK;
}

static hvd_status_t check_wire(const hvd_options_t *o,
                               const struct collective_args *args, bool grouped)
{
    if (o->residual != NULL && o->wire_dtype == HVD_DTYPE_SAME)
        return refuse("residual", "only with a wire_dtype");
    if (o->wire_dtype == HVD_DTYPE_SAME)
        return HVD_OK;
    if (args->kind != COLLECTIVE_ALLREDUCE || grouped)
        return refuse("wire_dtype", "only an allreduce of one tensor takes it");
    if (args->dtype != HVD_FLOAT32 && args->dtype != HVD_FLOAT64)
        return refuse("wire_dtype", "only float32 and float64 take it");
    if (args->op == HVD_ADASUM)
        return refuse("wire_dtype", "HVD_ADASUM does not take it");
    return HVD_OK;
}

static hvd_status_t check_scales(const hvd_options_t *o,
                                 const struct collective_args *args)
{
    const char *field = o->prescale != 1 ? "prescale" : "postscale";

    if (o->prescale == 1 && o->postscale == 1)
        return HVD_OK;
    if (args->kind != COLLECTIVE_ALLREDUCE)
        return refuse(field, "only an allreduce takes it");
    if (!scale_applies(args->dtype))
        return refuse(field, "only floating point takes it");
    return HVD_OK;
}

static hvd_status_t check(const hvd_options_t *o,
                          const struct collective_args *args, bool grouped)
{
    HVD_TRY(check_values(o));
    if (o->key != NULL && o->key[0] == '\0')
        return refuse("key", "it is empty");
    if (o->match != NULL && o->key == NULL)
        return refuse("match", "only a call by name takes it");
    if (args->place != NULL && o->memory == HVD_MEMORY_DEVICE)
        return refuse("memory", "a call with a place function takes host "
                                "buffers only");
    HVD_TRY(check_wire(o, args, grouped));
    return check_scales(o, args);
}

/* HVD_AVERAGE inside, whatever it divides by. */
static void adopt_op(struct collective_args *args)
{
    args->of_all = args->op == HVD_AVERAGE_OF_ALL;
    if (args->of_all)
        args->op = HVD_AVERAGE;
}

hvd_status_t options_adopt(const hvd_options_t *options, bool grouped,
                           struct collective_args *args, struct route *route_p)
{
    hvd_options_t own = HVD_OPTIONS_INIT;

    *route_p = (struct route){HVD_WORLD, false};
    adopt_op(args);
    if (options == NULL)
        return HVD_OK;
    HVD_TRY(copy(options, &own));
    HVD_TRY(check(&own, args, grouped));
    *route_p = (struct route){own.comm, own.key != NULL};
    args->name = own.key;
    args->label = own.label;
    args->stream = own.stream;
    args->ordered = own.flags & HVD_STREAM_ORDERED;
    args->memory = own.memory;
    args->wire_dtype = own.wire_dtype;
    args->scaled = true;
    args->prescale = own.prescale;
    args->postscale = own.postscale;
    args->residual = own.residual;
    args->match = own.match;
    return HVD_OK;
}
