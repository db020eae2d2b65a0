/* elastic/agent/notice.c - see notice.h. Pure. */
#include "elastic/agent/notice.h"

#include <stdbool.h>
#include <string.h>

/* A piece of the text: [begin, end). */
struct piece {
    const char *begin, *end;
};

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static struct piece strip(struct piece s)
{
    while (s.begin < s.end && is_space(*s.begin))
        s.begin++;
    while (s.begin < s.end && is_space(s.end[-1]))
        s.end--;
    return s;
}

/* For people: cut, and without bytes that would disturb a terminal. */
static void copy(char *to, struct piece from)
{
    size_t n = 0;

    for (const char *c = from.begin; c < from.end && n + 1 < WIRE_TEXT_MAX; c++)
        to[n++] = *c >= 0x20 && *c < 0x7f ? *c : '?';
    to[n] = '\0';
}

/* line is stripped, and not empty. *rest_p: what follows them. */
static bool parse_seconds(struct piece line, uint64_t *left_us_p,
                          struct piece *rest_p)
{
    const char *c = line.begin;
    uint64_t s = 0;

    for (; c < line.end && *c >= '0' && *c <= '9' && s <= NOTICE_MAX_S; c++)
        s = 10 * s + (uint64_t)(*c - '0');
    if (s > NOTICE_MAX_S || (c < line.end && !is_space(*c)))
        return false;
    *left_us_p = s * 1000000;
    *rest_p = strip((struct piece){c, line.end});
    return true;
}

enum notice_answer notice_parse(const char *text, size_t nbytes,
                                uint64_t *left_us_p, char *why)
{
    struct piece all = strip((struct piece){text, text + nbytes}), rest;
    const char *end;

    if (all.begin == all.end)
        return NOTICE_STAYS;
    end = memchr(all.begin, '\n', (size_t)(all.end - all.begin));
    if (end)
        all = strip((struct piece){all.begin, end});
    if (!parse_seconds(all, left_us_p, &rest)) {
        copy(why, all);
        return NOTICE_NONSENSE;
    }
    copy(why, rest);
    return NOTICE_GOES;
}
