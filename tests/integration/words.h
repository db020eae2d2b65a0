/* tests/integration/words.h - the command line of the programs that jobs run: a
 * table of what each word sets. */
#ifndef TESTS_INTEGRATION_WORDS_H
#define TESTS_INTEGRATION_WORDS_H

#include <getopt.h>
#include <stdbool.h>
#include <stdlib.h>

/* One of the three is not NULL: where what follows the word goes, or true. */
struct word {
    const char *name;
    long *number;
    bool *flag;
    const char **text;
};

enum { WORDS_MAX = 48 };

/* words [n]. Returns the index of the first argument that is none of them; -1:
 * there is one that begins with "--". */
static inline int words_parse(int argc, char **argv, const struct word *words,
                              int n)
{
    struct option longs[WORDS_MAX] = {{NULL, 0, NULL, 0}};
    int c;

    if (n >= WORDS_MAX)
        abort();
    for (int i = 0; i < n; i++)
        longs[i] = (struct option){words[i].name, words[i].flag == NULL, NULL,
                                   i + 1};
    while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        const struct word *word = &words[c - 1];

        if (c < 1 || c > n)
            return -1;
        if (word->number != NULL)
            *word->number = strtol(optarg, NULL, 10);
        else if (word->flag != NULL)
            *word->flag = true;
        else
            *word->text = optarg;
    }
    return optind;
}

#endif
