/* elastic/wire/scout.c - see scout.h.
 *
 * A record for the writer's thread means: look. What it finds is there to be
 * read once nothing is pending. */
#include "elastic/wire/scout.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/writer.h"

enum { CLOSE_MS = 200, KEEP_MAX = 4096 };

struct scout {
    char dir[PATH_MAX];
    struct writer *writer;
    struct beacon beacon; /* the thread's, while something is pending */
    bool found, missing;
    struct beacon known; /* what has been found */
    bool any, none;
};

static int look(struct writer *w, void *arg, const char *bytes, size_t n)
{
    struct scout *s = arg;
    hvd_status_t status;

    (void)w;
    (void)bytes;
    (void)n;
    status = beacon_read(s->dir, &s->beacon);
    s->found = status == HVD_OK;
    s->missing = status == HVD_ERR_DRIVER_LOST;
    return 0;
}

hvd_status_t scout_create(const char *dir, struct scout **scout_p)
{
    static const struct writer_ops ops = {.take = look};
    struct scout *s = calloc(1, sizeof(*s));
    struct writer_config config = {
        .ops = &ops, .arg = s, .keep_max = KEEP_MAX, .wake_fd = -1};
    hvd_status_t status;

    if (!s)
        return error_set(HVD_ERR_NOMEM, "out of memory");
    snprintf(s->dir, sizeof(s->dir), "%s", dir);
    status = writer_create(&config, &s->writer);
    if (status == HVD_OK)
        *scout_p = s;
    else
        free(s);
    return status;
}

/* Nothing is pending. */
static void remember(struct scout *s)
{
    s->known = s->beacon;
    s->any = s->found;
    s->none = s->missing;
}

static bool recall(const struct scout *s, struct beacon *b)
{
    *b = s->known;
    return s->any;
}

bool scout_look(struct scout *s, int wait_ms, struct beacon *b)
{
    /* what is under way may have begun before the caller stood still */
    if (writer_pending(s->writer) > 0 &&
        (wait_ms == 0 || !writer_flush(s->writer, wait_ms)))
        return recall(s, b);
    remember(s);
    if (writer_put(s->writer, "?", 1) && wait_ms > 0 &&
        writer_flush(s->writer, wait_ms))
        remember(s);
    return recall(s, b);
}

bool scout_misses(const struct scout *s)
{
    return s->none;
}

void scout_destroy(struct scout *s)
{
    int error;

    if (s && writer_destroy(s->writer, CLOSE_MS, CLOSE_MS, &error))
        free(s);
}
