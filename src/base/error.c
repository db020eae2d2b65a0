/* base/error.c - thread-local error sentences. See error.h. */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char text[ERROR_TEXT_MAX];

__attribute__((format(printf, 1, 0))) static void set_text(const char *fmt,
                                                           va_list ap)
{
    /* the arguments may include the old text: format aside, then copy */
    char next[ERROR_TEXT_MAX];

    vsnprintf(next, sizeof(next), fmt, ap);
    memcpy(text, next, sizeof(text));
}

hvd_status_t error_set(hvd_status_t status, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    set_text(fmt, ap);
    va_end(ap);
    return status;
}

hvd_status_t error_errno(const char *fmt, ...)
{
    int saved = errno;
    va_list ap;
    size_t n;

    va_start(ap, fmt);
    set_text(fmt, ap);
    va_end(ap);
    n = strlen(text);
    snprintf(text + n, sizeof(text) - n, ": %s", strerror(saved));
    return HVD_ERR_SYSTEM;
}

hvd_status_t error_prefix(hvd_status_t status, const char *fmt, ...)
{
    char old[ERROR_TEXT_MAX];
    va_list ap;
    size_t n;

    if (status == HVD_OK)
        return HVD_OK;
    memcpy(old, text, sizeof(old));
    va_start(ap, fmt);
    set_text(fmt, ap);
    va_end(ap);
    n = strlen(text);
    snprintf(text + n, sizeof(text) - n, ": %s", old);
    return status;
}

const char *error_text(void)
{
    return text;
}

void error_clear(void)
{
    text[0] = '\0';
}

const char *hvd_last_error(void)
{
    return text;
}

const char *hvd_strerror(hvd_status_t status)
{
    switch (status) {
#define STATUS_CASE(name, value, words) \
    case name:                          \
        return words;
        HVD_STATUS_TABLE(STATUS_CASE)
#undef STATUS_CASE
    default:
        return status <= HVD_USER_STATUS_MAX ? "user status" : "unknown status";
    }
}
