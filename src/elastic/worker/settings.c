/* elastic/worker/settings.c - see settings.h. */
#include "elastic/worker/settings.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/error.h"
#include "base/log.h"
#include "base/number.h"
#include "base/text.h"
#include "elastic/wire/env.h"
#include "elastic/wire/env_check.h"

/* --- one by one: "" is the default --- */

static hvd_status_t parse_algorithms(struct settings *s, const char *value)
{
    struct algorithm_override o = {{0}};
    char error[ALGORITHM_ERROR_MAX];

    if (*value != '\0' && !algorithm_parse(value, &o, error))
        return error_set(HVD_ERR_INVALID, "HVD_ALGORITHM: %s", error);
    s->algorithms = o;
    return HVD_OK;
}

/* A threshold of nothing is one that no tensor is below; 0 is none. */
static hvd_status_t parse_threshold(struct settings *s, const char *value)
{
    s->fusion_nbytes = 0;
    if (*value == '\0')
        return HVD_OK;
    HVD_TRY(env_check(ENV_FUSION_THRESHOLD, value));
    (void)number_parse_size(value, NAMES_FUSION_MAX, &s->fusion_nbytes);
    if (s->fusion_nbytes == 0)
        s->fusion_nbytes = COMM_FUSION_NONE;
    return HVD_OK;
}

static hvd_status_t parse_capacity(struct settings *s, const char *value)
{
    s->names_known = 0;
    HVD_TRY(env_check(ENV_CACHE_CAPACITY, value));
    if (*value != '\0')
        (void)number_parse_size(value, NAMES_KNOWN_MAX, &s->names_known);
    return HVD_OK;
}

static hvd_status_t parse_verify(struct settings *s, const char *value)
{
    HVD_TRY(env_check(ENV_VERIFY_STATE, value));
    (void)verify_rule_parse(value, &s->verify);
    return HVD_OK;
}

static const struct setting {
    const char *variable;
    hvd_status_t (*parse)(struct settings *s, const char *value);
} all[] = {{"HVD_ALGORITHM", parse_algorithms},
           {ENV_FUSION_THRESHOLD, parse_threshold},
           {ENV_CACHE_CAPACITY, parse_capacity},
           {ENV_VERIFY_STATE, parse_verify}};

static bool differ(const struct settings *a, const struct settings *b)
{
    return memcmp(&a->algorithms, &b->algorithms, sizeof(a->algorithms)) != 0 ||
           a->fusion_nbytes != b->fusion_nbytes ||
           a->names_known != b->names_known || a->verify.off != b->verify.off ||
           a->verify.warns != b->verify.warns ||
           a->verify.every != b->verify.every;
}

/* --- as text --- */

static hvd_status_t add(struct text *t, const char *variable, const char *value)
{
    if (*value == '\0')
        return HVD_OK;
    if (t->n + strlen(variable) + strlen(value) + sizeof("=\n") > t->max)
        return error_set(
            HVD_ERR_INVALID,
            "HVD_ALGORITHM and the other job-wide settings exceed %d "
            "characters together",
            WIRE_SETTINGS_MAX - 1);
    text_add(t, variable);
    text_add(t, "=");
    text_add(t, value);
    text_add(t, "\n");
    return HVD_OK;
}

/* The value of it in the text, to out [WIRE_SETTINGS_MAX]; "": not set. */
static void find(const char *text, const char *variable, char *out)
{
    struct text t = text_into(out, WIRE_SETTINGS_MAX);
    size_t n = strlen(variable);
    const char *line = text, *end;

    for (; (end = strchr(line, '\n')) != NULL; line = end + 1)
        if (strncmp(line, variable, n) == 0 && line[n] == '=') {
            text_add_n(&t, line + n + 1, (size_t)(end - line) - n - 1);
            return;
        }
}

hvd_status_t settings_read(struct settings *settings)
{
    struct settings fresh;
    struct text t = text_into(fresh.text, sizeof(fresh.text));

    for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
        const char *value = getenv(all[i].variable);

        value = value != NULL ? value : "";
        HVD_TRY(all[i].parse(&fresh, value));
        HVD_TRY(add(&t, all[i].variable, value));
    }
    *settings = fresh;
    return HVD_OK;
}

static const char *shown(const char *value)
{
    return *value != '\0' ? value : "unset";
}

static void warn(const struct setting *setting, const struct settings *settings,
                 const char *told)
{
    char own[WIRE_SETTINGS_MAX];

    find(settings->text, setting->variable, own);
    log_warn("%s is %s here and %s on rank 0, which counts", setting->variable,
             shown(own), shown(told));
}

/* Of one: *differs_p. */
static hvd_status_t take(const struct setting *setting, struct settings *fresh,
                         const char *told, bool *differs_p)
{
    struct settings before = *fresh;

    if (setting->parse(fresh, told) != HVD_OK)
        return error_prefix(HVD_ERR_MISMATCH, "rank 0's environment");
    *differs_p = differ(&before, fresh);
    return HVD_OK;
}

hvd_status_t settings_take(struct settings *settings, const char *text)
{
    struct settings fresh = *settings;
    struct text t = text_into(fresh.text, sizeof(fresh.text));
    char told[WIRE_SETTINGS_MAX];
    bool differs = false;

    for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
        find(text, all[i].variable, told);
        HVD_TRY(take(&all[i], &fresh, told, &differs));
        if (differs)
            warn(&all[i], settings, told);
        HVD_TRY(add(&t, all[i].variable, told));
    }
    *settings = fresh;
    return HVD_OK;
}
