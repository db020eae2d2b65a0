/* run.c - the product's run loop and membership as they are, and what they keep
 * for their process: here many share it. */
#include "elastic/worker/membership.c"
/* ... whose names are parameters there */
#include "elastic/worker/run.c"

#include "app.h"

static uint64_t sources_of_generation; /* whose `sources` holds */

/* The table of a generation is the same for all its members. */
static void find_sources_again(const struct sim_worker *w)
{
    struct control_assignment a;

    if (w->app != APP_SYNCING || w->generation == sources_of_generation)
        return;
    control_assignment(&a);
    find_sources(&a);
    sources_of_generation = w->generation;
}

void run_begins(uint64_t generation)
{
    sources_of_generation = generation;
}

void run_put_away(struct run_kept *kept_p)
{
    kept_p->assigned_ns = assigned_ns;
    kept_p->shown = shown;
    kept_p->text[0] = '\0';
    if (error_text()[0] != '\0')
        snprintf(kept_p->text, sizeof(kept_p->text), "%s", error_text());
    error_clear();
}

void run_bring_back(const struct run_kept *kept, const struct sim_worker *w)
{
    assigned_ns = kept->assigned_ns;
    shown = kept->shown;
    if (kept->text[0] != '\0')
        (void)error_set(HVD_OK, "%s", kept->text);
    find_sources_again(w);
}
