/* shrink.h - a run that fails is made smaller before it is shown: what goes
 * wrong in it is left out or put off, piece by piece, as long as the same
 * invariant is violated.
 *
 * Threads: none. Memory: static. */
#ifndef TESTS_SIM_SHRINK_H
#define TESTS_SIM_SHRINK_H

#include "sim.h"

/* No more runs than that, and for so long: within n_runs the result is a
 * function of the options alone. */
struct shrink_limits {
    uint64_t n_runs, ms;
};
#define SHRINK_LIMITS ((struct shrink_limits){2000, 20000})

struct shrink_report {
    uint64_t n_runs;
    uint64_t faults_before, faults_after;
};

/* options: of a run that fails; their `less` becomes what may be left out. */
void shrink(struct sim_options *options, const struct shrink_limits *limits,
            struct shrink_report *report_p);

enum { SHRINK_TEXT_MAX = 1024 };
/* As --less takes it; and back. */
void shrink_print(const struct sim_less *less, char text[SHRINK_TEXT_MAX]);
bool shrink_parse(const char *text, struct sim_less *less_p);

#endif
