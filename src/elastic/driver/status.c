/* elastic/driver/status.c - the live status line. See status.h. */
#include "elastic/driver/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "elastic/driver/output.h"

enum { REDRAW_US = 100000, WIDTH_DEFAULT = 80 };

static bool is_terminal(int fd)
{
    const char *term = getenv("TERM");

    return isatty(fd) && term && strcmp(term, "dumb") != 0;
}

void status_init(struct status *s, int fd, struct output *output)
{
    *s = (struct status){
        .output = output, .fd = fd, .terminal = is_terminal(fd)};
}

void status_fini(struct status *s)
{
    status_hide(s);
    *s = (struct status){.fd = -1};
}

/* ---- the words ---------------------------------------------------------- */

static void add(char *text, size_t max, const char *words)
{
    size_t n = strlen(text);

    snprintf(text + n, max - n, "%s%s", n > 0 ? " | " : "", words);
}

static void add_counts(const struct status_view *view, char *text, size_t max)
{
    char words[96];

    if (view->generation == 0) {
        add(text, max, "starting");
        return;
    }
    snprintf(words, sizeof(words), "gen %llu",
             (unsigned long long)view->generation);
    add(text, max, words);
    snprintf(words, sizeof(words), "%u worker%s on %u host%s", view->size,
             view->size == 1 ? "" : "s", view->n_hosts,
             view->n_hosts == 1 ? "" : "s");
    add(text, max, words);
}

/* "commit 812, 3 s ago, 0.33/s" */
static void add_commits(const struct status_view *view, char *text, size_t max)
{
    double per_s = view->commits_per_s;
    uint64_t age_s = view->commit_age_us / 1000000;
    char words[96];
    int n = snprintf(words, sizeof(words), "commit %llu",
                     (unsigned long long)view->commits);

    if (age_s > 0)
        n += snprintf(words + n, sizeof(words) - (size_t)n, ", %llu s ago",
                      (unsigned long long)age_s);
    if (per_s >= 0)
        snprintf(words + n, sizeof(words) - (size_t)n, ", %.*f/s",
                 per_s < 1    ? 2
                 : per_s < 10 ? 1
                              : 0,
                 per_s);
    add(text, max, words);
}

/* A note may name hosts and programs: keep control bytes off the terminal. */
static void add_note(const char *note, char *text, size_t max)
{
    size_t from = strlen(text);

    add(text, max, note);
    for (char *c = text + from; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
}

void status_format(const struct status_view *view, char *text, int max)
{
    size_t room = (size_t)max;
    char words[64];

    text[0] = '\0';
    add_counts(view, text, room);
    if (view->commits > 0)
        add_commits(view, text, room);
    if (view->recovery_us > 0) {
        snprintf(words, sizeof(words), "recovered in %.1f ms",
                 (double)view->recovery_us / 1e3);
        add(text, room, words);
    }
    if (view->note)
        add_note(view->note, text, room);
}

/* ---- drawing ------------------------------------------------------------ */

static size_t terminal_width(int fd)
{
    struct winsize size;

    if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    return WIDTH_DEFAULT;
}

/* Where to cut text so that it fills less than `width` columns: not inside a
 * UTF-8 sequence. Every character counts as one column. */
static size_t cut(const char *text, size_t width)
{
    size_t i = 0, columns = 0;

    for (; text[i]; i++) {
        if (((unsigned char)text[i] & 0xc0) == 0x80)
            continue;
        if (++columns >= width)
            return i;
    }
    return i;
}

static void draw(struct status *s, uint64_t now_us)
{
    char line[STATUS_TEXT_MAX + 16];
    int n;

    s->drawn_us = now_us;
    if (!output_is_idle(s->output))
        return; /* stopped (Ctrl-S): stays dirty, tried again later */
    n = snprintf(line, sizeof(line), "\r%.*s\033[K",
                 (int)cut(s->text, terminal_width(s->fd)), s->text);
    output_draw(s->output, line, (size_t)n);
    s->drawn = true;
    s->dirty = false;
}

void status_set(struct status *s, const struct status_view *view,
                uint64_t now_us)
{
    char text[STATUS_TEXT_MAX];

    if (!s->terminal)
        return;
    status_format(view, text, sizeof(text));
    if (strcmp(text, s->text) != 0) {
        strcpy(s->text, text);
        s->dirty = true;
    }
    status_tick(s, now_us);
}

void status_tick(struct status *s, uint64_t now_us)
{
    if (s->dirty && now_us >= s->drawn_us + REDRAW_US)
        draw(s, now_us);
}

uint64_t status_deadline(const struct status *s)
{
    return s->dirty ? s->drawn_us + REDRAW_US : CLOCK_NEVER;
}

void status_hide(struct status *s)
{
    if (!s->drawn)
        return;
    output_draw(s->output, "\r\033[K", 4);
    s->drawn = false;
    s->dirty = true;
}
