/* elastic/driver/last_words.c - see last_words.h. */
#include "elastic/driver/last_words.h"

#include <string.h>

#include "base/words.h"

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool ends_line(char c)
{
    return c == '\r' || c == '\n';
}

static void append(struct last_line *w, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n && w->n < LAST_WORDS_MAX - 1; i++) {
        unsigned char c = (unsigned char)bytes[i];

        w->text[w->n++] = c < 0x20 || c == 0x7f ? '?' : bytes[i];
    }
}

static bool only_follows(const struct last_line *w)
{
    char text[LAST_WORDS_MAX];

    memcpy(text, w->text, w->n);
    text[w->n] = '\0';
    return words_follow(text) ||
           ((w->redrawn || w->returned) && strchr(text, '%'));
}

static void begin_line(struct last_line *w)
{
    if (w->n > 0 && !only_follows(w)) {
        memcpy(w->cause, w->text, w->n);
        w->n_cause = w->n;
    }
    w->redrawn = w->returned;
    w->returned = false;
    w->n = 0;
}

void last_line_add(struct last_line *w, const char *bytes, size_t n)
{
    bool ends = n > 0 && ends_line(bytes[n - 1]);
    bool returned = ends && bytes[n - 1] == '\r';

    while (n > 0 && is_space(bytes[n - 1]))
        n--;
    if (!w->open)
        for (; n > 0 && is_space(*bytes); n--)
            bytes++;
    if (n > 0 && !w->open)
        begin_line(w);
    append(w, bytes, n);
    if (ends)
        w->returned = returned;
    w->open = !ends && (n > 0 || w->open);
}

bool last_line_text(const struct last_line *w, char *text)
{
    bool before = w->n_cause > 0 && only_follows(w);
    size_t n = before ? w->n_cause : w->n;

    memcpy(text, before ? w->cause : w->text, n);
    text[n] = '\0';
    return n > 0;
}

void last_words_keep(struct last_words *l, const struct last_line *w)
{
    if (w->n == 0)
        return;
    if (w->worker == l->watched.worker)
        l->watched = *w;
    l->kept[l->next] = *w;
    l->next = (l->next + 1) % LAST_WORDS_KEPT;
}

void last_words_watch(struct last_words *l, uint64_t worker)
{
    if (worker == l->watched.worker)
        return;
    l->watched = (struct last_line){.worker = worker};
    for (size_t i = 0; i < LAST_WORDS_KEPT && worker != 0; i++)
        if (l->kept[i].worker == worker)
            l->watched = l->kept[i];
}

bool last_words_of(const struct last_words *l, uint64_t worker, char *text)
{
    if (worker == 0)
        return false;
    if (l->watched.worker == worker)
        return last_line_text(&l->watched, text);
    for (size_t i = 0; i < LAST_WORDS_KEPT; i++)
        if (l->kept[i].worker == worker)
            return last_line_text(&l->kept[i], text);
    return false;
}

bool last_words_are_in(const char *words, const char *sentence)
{
    size_t n = strlen(words);

    for (const char *part = words; strlen(part) * 2 >= n; part += 2) {
        if (strstr(sentence, part))
            return true;
        part = strstr(part, ": ");
        if (!part)
            return false;
    }
    return false;
}
