/* base/verdict.c - see verdict.h. */
#include "base/verdict.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/array.h"

hvd_status_t verdict_init(struct verdict *v)
{
    atomic_init(&v->word, 0);
    v->text[0] = '\0';
    v->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return v->wake_fd >= 0 ? HVD_OK : error_errno("eventfd");
}

void verdict_fini(struct verdict *v)
{
    if (v->wake_fd >= 0)
        close(v->wake_fd);
    v->wake_fd = -1;
}

static bool claim(struct verdict *v)
{
    int none = 0;

    return atomic_compare_exchange_strong(&v->word, &none, VERDICT_CLAIMED);
}

static void publish(struct verdict *v, hvd_status_t reason)
{
    atomic_store_explicit(&v->word, (int)reason, memory_order_release);
    /* cannot fail: the counter is far from its limit */
    (void)eventfd_write(v->wake_fd, 1);
}

void verdict_set(struct verdict *v, hvd_status_t reason, const char *text)
{
    HVD_ASSERT(reason != HVD_OK);
    if (!claim(v))
        return;
    snprintf(v->text, sizeof(v->text), "%s", text);
    publish(v, reason);
}

hvd_status_t verdict_fail(struct verdict *v, hvd_status_t reason,
                          const char *fmt, ...)
{
    va_list ap;

    if (claim(v)) {
        va_start(ap, fmt);
        vsnprintf(v->text, sizeof(v->text), fmt, ap);
        va_end(ap);
        publish(v, reason);
    }
    /* whoever won is publishing a few instructions from here */
    while (atomic_load(&v->word) == VERDICT_CLAIMED)
        sched_yield(); /* it may wait for this core */
    return verdict_tell(v);
}

hvd_status_t verdict_status(const struct verdict *v, const char **text_p)
{
    int word = atomic_load_explicit(&v->word, memory_order_acquire);
    bool none = word == 0 || word == VERDICT_CLAIMED;

    if (text_p != NULL)
        *text_p = none ? "" : v->text;
    return none ? HVD_OK : (hvd_status_t)word;
}

hvd_status_t verdict_tell(const struct verdict *v)
{
    const char *text;
    hvd_status_t status = verdict_status(v, &text);

    return status == HVD_OK ? HVD_OK : error_set(status, "%s", text);
}
