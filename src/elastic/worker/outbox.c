/* elastic/worker/outbox.c - see outbox.h. Pure. */
#include "elastic/worker/outbox.h"

void outbox_clear(struct outbox *box)
{
    box->first += box->n;
    box->n = 0;
}

void outbox_push(struct outbox *box, const struct message *m)
{
    if (box->n == OUTBOX_MAX) {
        box->first++;
        box->n--;
    }
    box->items[(box->first + box->n++) % OUTBOX_MAX] = *m;
}

bool outbox_first(const struct outbox *box, struct message *m,
                  uint64_t *number_p)
{
    if (box->n == 0)
        return false;
    *m = box->items[box->first % OUTBOX_MAX];
    *number_p = box->first;
    return true;
}

void outbox_pop(struct outbox *box, uint64_t number)
{
    if (box->n == 0 || box->first != number)
        return;
    box->first++;
    box->n--;
}
