/* discovery/hosts.c - parsing, ordering and comparing lists of hosts. See
 * hosts.h.
 *
 * Names are looked up through a small open-addressing table of indices, made
 * for one call and freed at its end: a script may list thousands of hosts every
 * second. Memory: malloc for the results and that table, nothing else. */
#include "discovery/hosts.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/text.h"

enum { QUOTE_MAX = 80 }; /* of a bad line, as shown in the sentence */

/* A piece of the text: [begin, end). */
struct piece {
    const char *begin, *end;
};

struct parser {
    enum hosts_syntax syntax;
    uint32_t default_slots;
    uint32_t line; /* from 1 */
    char *error;   /* [HOSTS_ERROR_MAX] */
    struct text said;
};

static uint32_t name_hash(const char *name)
{
    uint32_t h = 2166136261u; /* FNV-1a */

    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 16777619u;
    return h;
}

static void index_init(struct hosts_index *x, const struct host *items,
                       size_t max)
{
    size_t size = 16;

    while (size < 2 * max)
        size *= 2;
    *x = (struct hosts_index){.items = items, .mask = size - 1};
    x->table = calloc(size, sizeof(*x->table));
}

long hosts_index_find(const struct hosts_index *x, const char *name)
{
    if (!x->table) {
        for (size_t i = 0; i < x->n; i++)
            if (strcmp(x->items[i].name, name) == 0)
                return (long)i;
        return -1;
    }
    for (size_t at = name_hash(name) & x->mask; x->table[at];
         at = (at + 1) & x->mask) {
        uint32_t i = x->table[at] - 1;

        if (strcmp(x->items[i].name, name) == 0)
            return (long)i;
    }
    return -1;
}

/* items[n] becomes findable. */
static void index_add(struct hosts_index *x)
{
    if (x->table) {
        size_t at = name_hash(x->items[x->n].name) & x->mask;

        while (x->table[at])
            at = (at + 1) & x->mask;
        x->table[at] = (uint32_t)x->n + 1;
    }
    x->n++;
}

void hosts_index_init(struct hosts_index *x, const struct hosts *hosts)
{
    index_init(x, hosts->items, hosts->n);
    while (x->n < hosts->n)
        index_add(x);
}

void hosts_index_fini(struct hosts_index *x)
{
    free(x->table);
    *x = (struct hosts_index){0};
}

/* ---- sentences ---------------------------------------------------------- */

static void say(struct parser *p, const char *words)
{
    text_add(&p->said, words);
}

/* In quotes, cut, and without bytes that would disturb a terminal. */
static void say_quoted(struct parser *p, struct piece what)
{
    size_t n = (size_t)(what.end - what.begin);
    size_t shown = n > QUOTE_MAX ? QUOTE_MAX : n;

    say(p, "\"");
    for (size_t i = 0; i < shown; i++) {
        unsigned char c = (unsigned char)what.begin[i];

        text_add_n(&p->said, c < 0x20 || c >= 0x7f ? "?" : &what.begin[i], 1);
    }
    say(p, n > shown ? "...\"" : "\"");
}

/* Begin the sentence about `line`; false, so that callers can return it. */
static bool refuse(struct parser *p, struct piece line)
{
    p->said = text_into(p->error, HOSTS_ERROR_MAX);
    if (p->syntax != HOSTS_COMMAS) {
        say(p, "line ");
        text_u64(&p->said, p->line);
        say(p, ": ");
    }
    say_quoted(p, line);
    return false;
}

static bool refuse_all(struct parser *p, const char *sentence)
{
    p->said = text_into(p->error, HOSTS_ERROR_MAX);
    say(p, sentence);
    return false;
}

/* ---- parsing ------------------------------------------------------------ */

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

static struct piece strip(struct piece s)
{
    while (s.begin < s.end && is_space(*s.begin))
        s.begin++;
    while (s.begin < s.end && is_space(s.end[-1]))
        s.end--;
    return s;
}

static bool is_name_char(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
           (c >= 'A' && c <= 'Z') || c == '.' || c == '_' || c == '-';
}

/* Of an address of IPv6, which stands in brackets. */
static bool is_address_char(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') ||
           (c >= 'A' && c <= 'F') || c == '.' || c == ':';
}

static bool parse_number(struct piece digits, uint32_t max, uint32_t *value_p)
{
    uint32_t value = 0;

    for (const char *c = digits.begin; c < digits.end; c++) {
        if (*c < '0' || *c > '9' || value > max)
            return false;
        value = value * 10 + (uint32_t)(*c - '0');
    }
    if (digits.begin == digits.end || value > max)
        return false;
    *value_p = value;
    return true;
}

static bool refuse_number(struct parser *p, struct piece line,
                          struct piece digits, const char *why)
{
    refuse(p, line);
    say(p, ": ");
    say_quoted(p, digits);
    say(p, why);
    return false;
}

static bool parse_slots(struct parser *p, struct piece line,
                        struct piece digits, uint32_t *slots_p)
{
    return parse_number(digits, HOSTS_SLOTS_MAX, slots_p) ||
           refuse_number(p, line, digits,
                         " is not a number of slots (0 to 1024)");
}

static bool parse_name(struct parser *p, struct piece line, struct piece name,
                       struct host *host)
{
    bool address = name.begin > line.begin && name.begin[-1] == '[';
    size_t n = (size_t)(name.end - name.begin);
    const char *wrong = NULL;

    if (n == 0)
        wrong = ": no name of a host";
    else if (n >= HOSTS_NAME_MAX)
        wrong = ": a name of a host has 63 characters at most";
    else if (name.begin[0] == '-')
        wrong = ": a name of a host does not begin with '-'";
    for (size_t i = 0; i < n && !wrong; i++)
        if (address && !is_address_char(name.begin[i]))
            wrong = ": in brackets is an address of IPv6";
        else if (!address && !is_name_char(name.begin[i]))
            wrong = ": a name of a host has letters, digits, '.', '_', '-'";
    if (wrong) {
        refuse(p, line);
        say(p, wrong);
        return false;
    }
    memset(host->name, 0, sizeof(host->name));
    memcpy(host->name, name.begin, n);
    return true;
}

static bool begins_with(struct piece s, const char *key)
{
    size_t n = strlen(key);

    return (size_t)(s.end - s.begin) >= n && memcmp(s.begin, key, n) == 0;
}

/* "[fd00::1]" at the beginning of the line: what is in it is the name. The rest
 * begins at *at_p. */
static bool take_brackets(struct piece line, struct piece *name_p,
                          const char **at_p)
{
    size_t n = (size_t)(line.end - line.begin);
    const char *end = n > 0 && *line.begin == '[' ? memchr(line.begin, ']', n)
                                                  : NULL;

    if (!end)
        return false;
    *name_p = (struct piece){line.begin + 1, end};
    *at_p = end + 1;
    return true;
}

/* Where the count begins and the name ends: after ':' or " slots=". */
static bool split(enum hosts_syntax syntax, struct piece line,
                  struct piece *name_p, struct piece *slots_p)
{
    static const char key[] = "slots=";
    const char *at = line.begin;

    *name_p = line;
    if (!take_brackets(line, name_p, &at)) {
        while (at < line.end && *at != ':' && !is_space(*at))
            at++;
        name_p->end = at;
    }
    if (at == line.end)
        return false;
    slots_p->end = line.end;
    slots_p->begin = at + 1;
    if (*at == ':')
        return true;
    *slots_p = strip(*slots_p);
    if (syntax == HOSTS_FILE && begins_with(*slots_p, key)) {
        slots_p->begin += sizeof(key) - 1;
        return true;
    }
    *name_p = line; /* white space inside: the name's check refuses it */
    return false;
}

/* Take " drain=SECONDS" off the end, if it is there. */
static bool parse_drain(struct parser *p, struct piece line,
                        struct piece *rest_p, struct host *host)
{
    static const char key[] = "drain=";
    struct piece last = line;

    *rest_p = line;
    host->drains = false;
    host->drain_s = 0;
    while (last.begin < line.end && !is_space(*last.begin))
        last.begin++;
    rest_p->end = last.begin;
    last = strip(last);
    if (p->syntax != HOSTS_LINES || !begins_with(last, key)) {
        *rest_p = line;
        return true;
    }
    last.begin += sizeof(key) - 1;
    host->drains = true;
    return parse_number(last, HOSTS_DRAIN_MAX_S, &host->drain_s) ||
           refuse_number(p, line, last,
                         " is not a number of seconds (0 to 1000000)");
}

static bool parse_item(struct parser *p, struct piece whole, struct host *host)
{
    struct piece line, name, slots;

    if (!parse_drain(p, whole, &line, host))
        return false;
    if (split(p->syntax, line, &name, &slots))
        return parse_name(p, line, name, host) &&
               parse_slots(p, line, slots, &host->slots);
    if (!parse_name(p, line, name, host))
        return false;
    if (p->default_slots == 0) {
        refuse(p, line);
        say(p, ": no number of slots");
        return false;
    }
    host->slots = p->default_slots;
    return true;
}

static bool add_item(struct parser *p, struct piece line, struct hosts *hosts,
                     struct hosts_index *x)
{
    if (hosts->n == HOSTS_MAX)
        return refuse_all(p, "more than 16384 hosts");
    if (!parse_item(p, line, &hosts->items[hosts->n]))
        return false;
    if (hosts_index_find(x, hosts->items[hosts->n].name) >= 0) {
        refuse(p, line);
        say(p, ": the host is listed twice");
        return false;
    }
    hosts->n++;
    index_add(x);
    return true;
}

static bool parse_all(struct parser *p, struct piece text, char separator,
                      struct hosts *hosts, struct hosts_index *x)
{
    while (text.begin < text.end) {
        size_t rest = (size_t)(text.end - text.begin);
        const char *end = memchr(text.begin, separator, rest);
        struct piece line = {text.begin, end ? end : text.end};
        const char *comment;

        p->line++;
        text.begin = end ? end + 1 : text.end;
        comment = memchr(line.begin, '#', (size_t)(line.end - line.begin));
        if (comment && p->syntax != HOSTS_COMMAS)
            line.end = comment;
        line = strip(line);
        if (line.begin < line.end && !add_item(p, line, hosts, x))
            return false;
    }
    return true;
}

/* No more entries than separators + 1, and no more than HOSTS_MAX. */
static size_t bound(const char *text, size_t nbytes, char separator)
{
    size_t n = 1;

    for (size_t i = 0; i < nbytes && n < HOSTS_MAX; i++)
        n += text[i] == separator;
    return n;
}

bool hosts_parse(const char *text, size_t nbytes, enum hosts_syntax syntax,
                 uint32_t default_slots, struct hosts *hosts, char *error)
{
    struct parser p = {
        .syntax = syntax, .default_slots = default_slots, .error = error};
    char separator = syntax == HOSTS_COMMAS ? ',' : '\n';
    size_t n_max = bound(text, nbytes, separator);
    struct hosts next = {0};
    struct hosts_index x;
    bool ok;

    if (!array_reserve(&next.items, &next.max, n_max))
        return refuse_all(&p, "out of memory");
    index_init(&x, next.items, n_max);
    ok = parse_all(&p, (struct piece){text, text + nbytes}, separator, &next,
                   &x);
    hosts_index_fini(&x);
    if (!ok) {
        hosts_fini(&next);
        return false;
    }
    hosts_fini(hosts);
    *hosts = next;
    return true;
}

/* ---- lists -------------------------------------------------------------- */

void hosts_fini(struct hosts *hosts)
{
    free(hosts->items);
    *hosts = (struct hosts){0};
}

bool hosts_copy(const struct hosts *from, struct hosts *to)
{
    struct hosts next = {0};

    if (!array_reserve(&next.items, &next.max, from->n))
        return false;
    if (from->n > 0)
        memcpy(next.items, from->items, from->n * sizeof(*from->items));
    next.n = from->n;
    hosts_fini(to);
    *to = next;
    return true;
}

unsigned hosts_diff(const struct hosts *before, const struct hosts *after)
{
    enum { REMOVED = 1, ADDED = 2 };
    unsigned flags = 0;
    size_t n_same = 0;
    struct hosts_index x;

    hosts_index_init(&x, before);
    for (size_t i = 0; i < after->n; i++) {
        long old = hosts_index_find(&x, after->items[i].name);

        if (old < 0) {
            flags |= ADDED;
            continue;
        }
        n_same++;
        if (after->items[i].slots > before->items[old].slots)
            flags |= ADDED;
        else if (after->items[i].slots < before->items[old].slots)
            flags |= REMOVED;
    }
    hosts_index_fini(&x);
    return n_same < before->n ? flags | REMOVED : flags;
}

bool hosts_order(const struct hosts *previous, struct hosts *available)
{
    struct hosts next = {0};
    struct hosts_index x;

    if (!array_reserve(&next.items, &next.max, available->n))
        return false;
    hosts_index_init(&x, available);
    for (size_t i = 0; i < previous->n; i++) {
        long at = hosts_index_find(&x, previous->items[i].name);

        if (at >= 0)
            next.items[next.n++] = available->items[at];
    }
    hosts_index_fini(&x);
    hosts_index_init(&x, previous);
    for (size_t i = 0; i < available->n; i++)
        if (hosts_index_find(&x, available->items[i].name) < 0)
            next.items[next.n++] = available->items[i];
    hosts_index_fini(&x);
    HVD_ASSERT(next.n == available->n);
    hosts_fini(available);
    *available = next;
    return true;
}
