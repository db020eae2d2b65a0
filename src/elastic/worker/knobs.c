/* elastic/worker/knobs.c - see knobs.h. */
#include "elastic/worker/knobs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/error.h"
#include "base/log.h"
#include "base/world.h"
#include "collectives/autotune.h"
#include "collectives/net/connection.h"
#include "collectives/reduce/reduce.h"
#include "elastic/wire/env.h"
#include "elastic/wire/env_check.h"
#include "elastic/worker/settings.h"

enum { CHOICES_MAX = 8, CONGESTION_MAX = 16 /* TCP_CA_NAME_MAX */ };

/* The meaning of each word, in the order of env_check.c. */
struct knob {
    const char *variable;
    int values[CHOICES_MAX];
};

static const struct knob transport = {"HVD_TRANSPORT", {true, false}};

static const struct knob ordinary = {
    "HVD_LOCAL_BUFFERS",
    {COMM_ORDINARY_MEASURED, COMM_ORDINARY_STAGED, COMM_ORDINARY_ATTACHED}};

static const struct knob connections = {"HVD_TCP_CONNECTIONS",
                                        {1, 2, 3, 4, 5, 6, 7, 8}};

static const struct knob simd = {
    "HVD_SIMD",
    {REDUCE_ISA_COUNT, REDUCE_SCALAR, REDUCE_AVX2, REDUCE_AVX512, REDUCE_NEON}};

static const struct knob shared_device = {"HVD_DEVICE_SHARED", {false, true}};

static const struct knob stdout_buffering = {"HVD_STDOUT_BUFFERING",
                                             {true, false}};

static const struct knob autotune = {ENV_AUTOTUNE, {false, true}};

enum { DEVICE_SYNC_AUTO, DEVICE_SYNC_HOST, DEVICE_SYNC_NCCL };

static const struct knob device_sync = {
    "HVD_DEVICE_SYNC", {DEVICE_SYNC_AUTO, DEVICE_SYNC_HOST, DEVICE_SYNC_NCCL}};

/* Less is through the hosts' memory before NCCL has begun. */
static const uint64_t device_sync_nbytes[] = {[DEVICE_SYNC_AUTO] = 16 << 20,
                                              [DEVICE_SYNC_HOST] = UINT64_MAX,
                                              [DEVICE_SYNC_NCCL] = 0};

static struct {
    bool share;
    enum comm_ordinary ordinary;
    struct settings settings;
    int tcp_connections;
    bool share_device;
    bool line_buffering;
    int device_sync;
    char congestion[CONGESTION_MAX]; /* "": the host's */
    struct autotune *autotune;       /* NULL: off */
} knobs;

/* Unset or empty: the first choice. */
static hvd_status_t choose(const struct knob *knob, int *value_p)
{
    const char *text = getenv(knob->variable);
    int i = env_choose(knob->variable, text != NULL ? text : "");

    HVD_ASSERT(i < CHOICES_MAX);
    if (i < 0)
        return HVD_ERR_INVALID;
    *value_p = knob->values[i];
    return HVD_OK;
}

/* Unset or empty: the host's. */
static hvd_status_t read_congestion(void)
{
    const char *text = getenv("HVD_TCP_CONGESTION");

    if (text == NULL)
        text = "";
    if (*text != '\0' &&
        (strlen(text) >= CONGESTION_MAX || !connection_control_is_there(text)))
        return error_set(HVD_ERR_INVALID,
                         "HVD_TCP_CONGESTION: \"%s\" is none of "
                         "net.ipv4.tcp_allowed_congestion_control here",
                         text);
    snprintf(knobs.congestion, sizeof(knobs.congestion), "%s", text);
    return HVD_OK;
}

static void report_useless(void)
{
    struct world world;

    world_get(&world);
    if (world.size > 0 && world.rank == 0 && !autotune_was_used(knobs.autotune))
        log_warn("--autotune: the program has made no call by name -> nothing "
                 "was tuned");
}

void knobs_release(void)
{
    report_useless();
    autotune_destroy(knobs.autotune);
    knobs.autotune = NULL;
}

/* What the user has chosen is left as it is. */
static void fix_chosen(void)
{
    const struct settings *s = &knobs.settings;

    autotune_fix(knobs.autotune, s->fusion_nbytes > 0,
                 s->algorithms.by_kind[COLLECTIVE_ALLREDUCE] != ALGORITHM_AUTO);
}

static hvd_status_t prepare_autotune(bool on)
{
    const char *text = getenv(ENV_AUTOTUNE), *log = getenv(ENV_AUTOTUNE_LOG);
    struct autotune_config config = {.log = NULL};

    knobs_release(); /* an earlier hvd_init may have failed */
    config.log = log != NULL && *log != '\0' ? log : NULL;
    if (text == NULL || *text == '\0')
        on = config.log != NULL;
    if (!on)
        return HVD_OK;
    knobs.autotune = autotune_create(&config);
    if (knobs.autotune == NULL)
        return error_set(HVD_ERR_NOMEM, ENV_AUTOTUNE);
    fix_chosen();
    return HVD_OK;
}

hvd_status_t knobs_read(void)
{
    int share = 0, buffers = 0, vectors = 0, n = 0, share_device = 0, sync = 0;
    int tune = 0, lines = 0;
    enum reduce_isa isa;

    HVD_TRY(choose(&transport, &share));
    HVD_TRY(choose(&ordinary, &buffers));
    HVD_TRY(choose(&connections, &n));
    HVD_TRY(choose(&simd, &vectors));
    HVD_TRY(choose(&shared_device, &share_device));
    HVD_TRY(choose(&device_sync, &sync));
    HVD_TRY(choose(&autotune, &tune));
    HVD_TRY(choose(&stdout_buffering, &lines));
    HVD_TRY(read_congestion());
    HVD_TRY(settings_read(&knobs.settings));
    isa = (enum reduce_isa)vectors;
    if (isa != REDUCE_ISA_COUNT && !reduce_isa_supported(isa))
        return error_set(HVD_ERR_INVALID, "HVD_SIMD: this processor has no %s",
                         reduce_isa_name(isa));
    if (isa != REDUCE_ISA_COUNT)
        reduce_isa_use(isa);
    knobs.share = share;
    knobs.ordinary = (enum comm_ordinary)buffers;
    knobs.tcp_connections = n;
    knobs.share_device = share_device;
    knobs.line_buffering = lines;
    knobs.device_sync = sync;
    return prepare_autotune(tune);
}

bool knobs_share(void)
{
    return knobs.share;
}

uint64_t knobs_device_sync_nbytes(void)
{
    return device_sync_nbytes[knobs.device_sync];
}

bool knobs_line_buffering(void)
{
    return knobs.line_buffering;
}

const char *knobs_settings(void)
{
    return knobs.settings.text;
}

const struct verify_rule *knobs_verify(void)
{
    return &knobs.settings.verify;
}

hvd_status_t knobs_take_settings(const char *text)
{
    HVD_TRY(settings_take(&knobs.settings, text));
    fix_chosen();
    return HVD_OK;
}

void knobs_apply(struct comm_config *config)
{
    config->ordinary = knobs.ordinary;
    config->algorithms = knobs.settings.algorithms;
    config->tcp_connections = knobs.tcp_connections;
    config->congestion = knobs.congestion[0] != '\0' ? knobs.congestion : NULL;
    config->share_device = knobs.share_device;
    config->fusion_nbytes = knobs.settings.fusion_nbytes;
    config->names_known = knobs.settings.names_known;
    config->autotune = knobs.autotune;
}
