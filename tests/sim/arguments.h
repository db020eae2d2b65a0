/* arguments.h - what hvd-sim is told. */
#ifndef TESTS_SIM_ARGUMENTS_H
#define TESTS_SIM_ARGUMENTS_H

#include "sim.h"

struct arguments {
    struct sim_options options;
    uint64_t n_seeds, pairs, seconds;
    bool exhaustive, replay, bugs, no_coverage, keep_going, no_shrink, help;
};

/* false: a line on stderr says what is wrong. */
bool arguments_parse(struct arguments *a, int argc, char **argv);
void arguments_help(void);

#endif
