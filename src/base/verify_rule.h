/* base/verify_rule.h - the commits that compare the state of all ranks,
 * as --verify-state and HVD_VERIFY_STATE name them. Pure. Threads: any. */
#ifndef BASE_VERIFY_RULE_H
#define BASE_VERIFY_RULE_H

#include <stdbool.h>
#include <stdint.h>

/* Of a generation. A difference begins to show at the first commit after a
 * change of workers, and mostly nowhere later. */
enum { VERIFY_FIRST_COMMITS = 2 };

#define VERIFY_RULE_WORDS \
    "first, off or a number of commits, as 100 or 100,warn"

struct verify_rule {
    bool off;
    bool warns;     /* a difference is logged, else it ends the job */
    uint64_t every; /* also each so many commits of a generation; 0: the first
                       ones alone */
};

/* "first" (also ""), "off" or a number, then perhaps ",warn". false: none of
 * these, and nothing is changed. */
bool verify_rule_parse(const char *text, struct verify_rule *rule_p);

/* Is the n-th commit of a generation, from 1 on, one of them? */
bool verify_rule_applies(const struct verify_rule *rule, uint64_t n);

#endif
