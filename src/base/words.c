/* base/words.c - see words.h. Pure. */
#include "base/words.h"

#include <string.h>

#include "base/text.h"

static bool is_shown(char c)
{
    return (unsigned char)c >= ' ' && c != 0x7f;
}

/* Without what surrounds it. */
static void trim(struct words *w)
{
    size_t at = 0;

    while (w->n > 0 && w->line[w->n - 1] == ' ')
        w->n--;
    while (at < w->n && w->line[at] == ' ')
        at++;
    memmove(w->line, w->line + at, w->n - at);
    w->n -= at;
    w->line[w->n] = '\0';
}

bool words_follow(const char *line)
{
    static const char *const begins[] = {
        "note:", "Note:", "warning:", "Warning:", "Node.js v", "stty:"};

    for (size_t i = 0; i < sizeof(begins) / sizeof(*begins); i++)
        if (strncmp(line, begins[i], strlen(begins[i])) == 0)
            return true;
    if (strncmp(line, "==", 2) != 0)
        return false;
    for (line += 2; *line >= '0' && *line <= '9';)
        line++;
    return strncmp(line, "==ABORTING", 10) == 0;
}

static void tell_line(struct words *w,
                      void (*tell)(void *arg, const char *line), void *arg)
{
    if (w->n_lines++ < WORDS_LINES_MAX)
        tell(arg, w->line);
    else
        w->n_omitted++;
}

void words_end(struct words *w, void (*tell)(void *arg, const char *line),
               void *arg)
{
    trim(w);
    if (w->n > 0) {
        if (!*w->last || !words_follow(w->line) || words_follow(w->last))
            memcpy(w->last, w->line, w->n + 1);
        tell_line(w, tell, arg);
    }
    w->n = 0;
}

static void open_window(struct words *w, uint64_t now_us,
                        void (*tell)(void *arg, const char *line), void *arg)
{
    char line[WORDS_LINE_MAX];
    struct text t = text_into(line, sizeof(line));

    w->window_us = now_us + WORDS_WINDOW_US;
    w->n_lines = w->nbytes = 0;
    if (w->n_omitted == 0)
        return;
    text_u64(&t, w->n_omitted);
    text_add(&t, " more lines are left out");
    w->n_omitted = 0;
    tell(arg, line);
}

void words_feed(struct words *w, const char *data, size_t nbytes,
                uint64_t now_us, void (*tell)(void *arg, const char *line),
                void *arg)
{
    if (now_us >= w->window_us)
        open_window(w, now_us, tell, arg);
    w->nbytes += nbytes;
    for (size_t i = 0; i < nbytes; i++) {
        if (data[i] == '\n' || data[i] == '\r')
            words_end(w, tell, arg);
        else if (w->n < WORDS_LINE_MAX - 1)
            w->line[w->n++] = data[i] == '\t'     ? ' '
                              : is_shown(data[i]) ? data[i]
                                                  : '?';
    }
}

uint64_t words_wait(const struct words *w, uint64_t now_us)
{
    return w->nbytes >= WORDS_NBYTES_MAX && now_us < w->window_us ? w->window_us
                                                                  : 0;
}

/* ssh says "Connection to ADDRESS port N timed out" when the connection stood:
 * the first large packets are those of its key exchange. */
const char *words_hint(const char *last)
{
    static const char begin[] = "Connection to ", end[] = " timed out";
    size_t n = strlen(last), n_end = sizeof(end) - 1;

    if (strncmp(last, begin, sizeof(begin) - 1) != 0 || n < n_end ||
        strcmp(last + n - n_end, end) != 0)
        return "";
    return " during the login -> does the path lose large packets (MTU), or "
           "does the host hang?";
}
