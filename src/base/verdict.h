/* base/verdict.h - why something has ended: a word that is set once, by
 * whichever thread is first, and the sentence that goes with it. Who waits
 * polls wake_fd with whatever else it waits for.
 *
 *   verdict_fail()         another thread           verdict_check()
 *     claims the word        finds it claimed,        sees a reason: then
 *     writes the text        waits for the reason     the text is complete
 *     stores the reason
 *     raises wake_fd
 *
 * Threads: any, but for init and fini. */
#ifndef BASE_VERDICT_H
#define BASE_VERDICT_H

#include <stdatomic.h>
#include <stdbool.h>

#include <hvd/status.h>

#include "base/error.h"

enum { VERDICT_CLAIMED = 0x7ffffffe };

struct verdict {
    int wake_fd;     /* eventfd, readable from then on; its owner may raise it
                        for reasons of its own. -1: none */
    atomic_int word; /* 0: none yet; VERDICT_CLAIMED; else the reason */
    char text[ERROR_TEXT_MAX]; /* constant once word is a reason */
};

/* HVD_ERR_SYSTEM: no descriptor. */
hvd_status_t verdict_init(struct verdict *v) HVD_MUST_CHECK;
void verdict_fini(struct verdict *v);

/* The first one counts. reason: not HVD_OK. */
void verdict_set(struct verdict *v, hvd_status_t reason, const char *text);
/* The same; returns the reason that counts, its sentence set (error_text()). */
hvd_status_t verdict_fail(struct verdict *v, hvd_status_t reason,
                          const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* HVD_OK: none yet. *text_p, unless NULL: its sentence, or "". */
hvd_status_t verdict_status(const struct verdict *v, const char **text_p);
/* Sets the sentence. */
hvd_status_t verdict_tell(const struct verdict *v) HVD_MUST_CHECK;

/* The same, for loops: HVD_OK costs a load. */
static inline hvd_status_t verdict_check(const struct verdict *v)
{
    if (__builtin_expect(
            atomic_load_explicit(&v->word, memory_order_acquire) == 0, 1))
        return HVD_OK;
    return verdict_tell(v);
}

#endif
