/* queue.c - the events of a run in the order of their time: a binary heap.
 * Events at the same time come in the order in which they were pushed, so that
 * a run depends on its seed alone.
 *
 * Threads: none. Memory: events are recycled until queue_fini(). */
#include <stdio.h>
#include <string.h>

#include "world.h"

static bool before(const struct heap_item *a, const struct heap_item *b)
{
    return a->at < b->at || (a->at == b->at && a->seq < b->seq);
}

static void *must(void *memory)
{
    if (!memory) {
        fputs("hvd-sim: out of memory\n", stderr);
        exit(2);
    }
    return memory;
}

static void insert(struct queue *q, uint64_t at, struct event *event)
{
    size_t i = q->n;
    struct heap_item item = {at, q->seq++, event};

    if (!array_reserve(&q->items, &q->max, q->n + 1))
        must(NULL);
    q->n++;
    while (i > 0 && before(&item, &q->items[(i - 1) / 2])) {
        q->items[i] = q->items[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    q->items[i] = item;
}

struct event *queue_push(struct queue *q, uint64_t at, enum event_type type)
{
    struct event *event = q->free_list;

    if (event)
        q->free_list = event->next;
    else
        event = must(malloc(sizeof(*event)));
    memset(event, 0, sizeof(*event));
    event->type = type;
    insert(q, at, event);
    return event;
}

void queue_again(struct queue *q, uint64_t at, struct event *event)
{
    q->popped = NULL;
    insert(q, at, event);
}

struct event *queue_pop(struct queue *q, uint64_t *at_p)
{
    struct event *event = q->items[0].event;
    struct heap_item last = q->items[--q->n];
    size_t i = 0;

    *at_p = q->items[0].at;
    for (;;) {
        size_t child = 2 * i + 1;

        if (child >= q->n)
            break;
        if (child + 1 < q->n && before(&q->items[child + 1], &q->items[child]))
            child++;
        if (!before(&q->items[child], &last))
            break;
        q->items[i] = q->items[child];
        i = child;
    }
    q->items[i] = last;
    q->popped = event;
    return event;
}

void queue_release(struct queue *q, struct event *event)
{
    free(event->message);
    event->message = NULL;
    q->popped = NULL;
    event->next = q->free_list;
    q->free_list = event;
}

void queue_park(struct queue *q, struct parked *parked, struct event *event)
{
    q->popped = NULL;
    event->next = NULL;
    if (parked->last)
        parked->last->next = event;
    else
        parked->first = event;
    parked->last = event;
}

static struct event *unlink_first(struct parked *parked)
{
    struct event *event = parked->first;

    parked->first = event->next;
    if (!parked->first)
        parked->last = NULL;
    return event;
}

static bool is_tick(const struct event *event)
{
    return event->type == EV_TICK ||
           (event->type == EV_AGENT && event->sub == AGENT_TICK);
}

/* A process that goes on reads what was sent to it before it looks at the
 * time. */
void queue_unpark(struct queue *q, struct parked *parked, uint64_t at)
{
    struct event *popped = q->popped;
    struct parked ticks = {0};

    while (parked->first) {
        struct event *event = unlink_first(parked);

        if (is_tick(event))
            queue_park(q, &ticks, event);
        else
            insert(q, at, event);
    }
    while (ticks.first)
        insert(q, at, unlink_first(&ticks));
    q->popped = popped;
}

void queue_drop(struct queue *q, struct parked *parked)
{
    struct event *popped = q->popped;

    while (parked->first)
        queue_release(q, unlink_first(parked));
    q->popped = popped;
}

void queue_fini(struct queue *q)
{
    if (q->popped) /* a violation ended the run in the middle of it */
        queue_release(q, q->popped);
    for (size_t i = 0; i < q->n; i++) {
        free(q->items[i].event->message);
        free(q->items[i].event);
    }
    while (q->free_list) {
        struct event *next = q->free_list->next;

        free(q->free_list);
        q->free_list = next;
    }
    free(q->items);
    memset(q, 0, sizeof(*q));
}
