/* base/words.h - stderr of another process, a client that starts an agent or a
 * user's script, as a bounded number of lines that can be shown.
 *
 * Pure. Threads: any. Memory: the caller's. */
#ifndef BASE_WORDS_H
#define BASE_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    WORDS_LINE_MAX = 512,       /* with its NUL: the rest of a line is cut */
    WORDS_LINES_MAX = 32,       /* passed on in a window; the rest is counted */
    WORDS_NBYTES_MAX = 1 << 18, /* read in a window; then it waits */
    WORDS_WINDOW_US = 10000000
};

struct words { /* zeroed: nothing has come */
    char line[WORDS_LINE_MAX], last[WORDS_LINE_MAX];
    size_t n;               /* bytes of line */
    uint64_t window_us;     /* the window ends */
    size_t n_lines, nbytes; /* in it */
    uint64_t n_omitted;
};

/* data [nbytes] has come. Each line that is whole and says something goes to
 * `tell`, unless that has had enough of them; the newest stays in `last`, but
 * one that only follows a cause does not replace it there. */
void words_feed(struct words *w, const char *data, size_t nbytes,
                uint64_t now_us, void (*tell)(void *arg, const char *line),
                void *arg);
/* Nothing more will come: what there is is a line, too. */
void words_end(struct words *w, void (*tell)(void *arg, const char *line),
               void *arg);
/* What to look at after this last line, to be put behind it; "": unknown. */
const char *words_hint(const char *last);
/* Does this line only follow a cause, as "==7==ABORTING" does? */
bool words_follow(const char *line);
/* When it may be read again; 0: now. */
uint64_t words_wait(const struct words *w, uint64_t now_us);

#endif
