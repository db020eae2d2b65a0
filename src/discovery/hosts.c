/* discovery/hosts.c - parsing lists of hosts, and finding a host in one. See
 * hosts.h; hosts_list.c copies and compares lists.
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
    uint32_t line;  /* from 1 */
    char *error;    /* [HOSTS_ERROR_MAX] of the first bad line */
    uint32_t n_bad; /* lines */
    bool counted;   /* this line says how many slots there are */
    bool hopeless;  /* the text is refused, whatever the syntax */
    struct text said;
    char unread[HOSTS_ERROR_MAX]; /* sentences of later bad lines */
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
    p->said = text_into(p->n_bad++ == 0 ? p->error : p->unread,
                        HOSTS_ERROR_MAX);
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
    p->hopeless = true;
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

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_name_char(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           c == '.' || c == '_' || c == '-';
}

/* Of an address of IPv6, which stands in brackets. */
static bool is_address_char(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') ||
           c == '.' || c == ':';
}

static bool parse_number(struct piece digits, uint32_t max, uint32_t *value_p)
{
    uint32_t value = 0;

    for (const char *c = digits.begin; c < digits.end; c++) {
        if (!is_digit(*c) || value > max)
            return false;
        value = value * 10 + (uint32_t)(*c - '0');
    }
    if (digits.begin == digits.end || value > max)
        return false;
    *value_p = value;
    return true;
}

/* ": ", the word of the line, and what is wrong with it. */
static bool refuse_word(struct parser *p, struct piece line, struct piece word,
                        const char *why)
{
    refuse(p, line);
    say(p, ": ");
    say_quoted(p, word);
    say(p, why);
    return false;
}

/* ": " and what is wrong. */
static bool refuse_why(struct parser *p, struct piece line, const char *why)
{
    refuse(p, line);
    say(p, ": ");
    say(p, why);
    return false;
}

static bool parse_slots(struct parser *p, struct piece line,
                        struct piece digits, uint32_t *slots_p)
{
    return parse_number(digits, HOSTS_SLOTS_MAX, slots_p) ||
           refuse_word(p, line, digits,
                       " is not a number of slots (0 to 1024)");
}

/* A character that a login may have; '@' is one, as the last '@' ends it. */
static bool is_login_char(char c)
{
    return is_name_char(c) || c == '+' || c == '\\' || c == '@';
}

static size_t length(struct piece s)
{
    return (size_t)(s.end - s.begin);
}

static bool equals(struct piece s, const char *word)
{
    return length(s) == strlen(word) &&
           memcmp(s.begin, word, strlen(word)) == 0;
}

static void copy(char *to, struct piece from)
{
    memcpy(to, from.begin, length(from));
    to[length(from)] = '\0';
}

/* What a line begins with, up to white space or the ':' of the slots. */
struct address {
    struct piece login; /* before the last '@'; empty: there is none */
    struct piece name;
    bool brackets; /* "[fd00::1]": the name is what they enclose */
};

/* Where the address ends. */
static const char *find_address(struct piece line, struct address *address)
{
    const char *at = line.begin, *name = line.begin;
    const char *close;

    while (at < line.end && *at != '[' && *at != ':' && !is_space(*at))
        if (*at++ == '@')
            name = at;
    address->login = (struct piece){line.begin,
                                    name > line.begin ? name - 1 : name};
    address->name = (struct piece){name, at};
    close = at == name && at < line.end && *at == '['
                ? memchr(at, ']', (size_t)(line.end - at))
                : NULL;
    address->brackets = close != NULL;
    if (close) {
        address->name = (struct piece){name + 1, close};
        return close + 1;
    }
    while (at < line.end && *at != ':' && !is_space(*at))
        at++;
    address->name.end = at;
    return at;
}

/* No part between dots is too long. */
static bool parts_fit(struct piece name)
{
    size_t n = 0;

    for (const char *c = name.begin; c < name.end; c++) {
        n = *c == '.' ? 0 : n + 1;
        if (n > HOSTS_PART_MAX)
            return false;
    }
    return true;
}

/* A part between dots, or at an end, that has nothing in it. */
static bool has_empty_part(struct piece name)
{
    for (const char *c = name.begin; c < name.end; c++)
        if (*c == '.' && (c == name.begin || c + 1 == name.end || c[1] == '.'))
            return true;
    return false;
}

/* All of [c, end), at least one. */
static bool all_are(const char *c, const char *end, bool (*is_good)(char c))
{
    if (c == end)
        return false;
    while (c < end && is_good(*c))
        c++;
    return c == end;
}

/* "fd00::1", or "fe80::1%eth0": on the network of an interface. */
static bool is_address(struct piece name)
{
    const char *scope = memchr(name.begin, '%', length(name));

    return all_are(name.begin, scope ? scope : name.end, is_address_char) &&
           (!scope || all_are(scope + 1, name.end, is_name_char));
}

/* "0.0.0.0", "::", and resolvers read "0" so. */
static bool is_any_address_char(char c)
{
    return c == '0' || c == '.' || c == ':';
}

/* NULL: nothing. */
static const char *name_wrong(struct piece name, bool brackets)
{
    const char *range;

    if (length(name) == 0)
        return "no name of a host";
    if (length(name) >= HOSTS_NAME_MAX)
        return "a name of a host has 253 characters at most";
    if (!parts_fit(name))
        return "a name of a host has 63 characters at most between two dots";
    if (name.begin[0] == '-')
        return "a name of a host does not begin with '-'";
    if (has_empty_part(name))
        return "a name of a host has no empty part between two dots";
    if (all_are(name.begin, name.end, is_any_address_char))
        return "no host has this address: it stands for all of a machine's own";
    if (brackets)
        return is_address(name) ? NULL : "in brackets is an address of IPv6";
    range = memchr(name.begin, '[', length(name));
    if (range && all_are(name.begin, range, is_name_char))
        return "a range of Slurm's is written out by scontrol show hostnames";
    return all_are(name.begin, name.end, is_name_char)
               ? NULL
               : "a name of a host has letters, digits, '.', '_', '-'";
}

/* "fd00::1", also with ":2" behind it; "a:b:c" is a typing error. */
static bool is_bare_ipv6(struct piece s)
{
    size_t n_colons = 0;
    bool doubled = false;

    for (const char *c = s.begin; c < s.end && !is_space(*c); c++) {
        if (*c == '%') /* the name of an interface follows */
            break;
        if (!is_address_char(*c))
            return false;
        n_colons += *c == ':';
        doubled |= *c == ':' && c > s.begin && c[-1] == ':';
    }
    return doubled || n_colons >= 7;
}

static const char *login_wrong(struct piece login)
{
    for (const char *c = login.begin; c < login.end; c++)
        if (!is_login_char(*c))
            return "a name of a user has letters, digits, '.', '_', '-', '+'";
    if (length(login) >= HOSTS_USER_MAX)
        return "a name of a user has 63 characters at most";
    if (length(login) > 0 && login.begin[0] == '-')
        return "a name of a user does not begin with '-'";
    return NULL;
}

/* The rest of the line begins at *at_p. */
static bool parse_address(struct parser *p, struct piece line,
                          struct host *host, const char **at_p)
{
    struct address address;
    const char *wrong;

    *at_p = find_address(line, &address);
    /* "host.example.": in full, which the name is without the dot, too */
    if (length(address.name) > 1 && address.name.end[-1] == '.')
        address.name.end--;
    if (!address.brackets &&
        is_bare_ipv6((struct piece){address.name.begin, line.end}))
        wrong = "an address of IPv6 stands in brackets: [fd00::1]:2";
    else
        wrong = name_wrong(address.name, address.brackets);
    if (!wrong)
        wrong = *line.begin == '@' ? "no name of a user"
                                   : login_wrong(address.login);
    if (wrong)
        return refuse_why(p, line, wrong);
    memset(host, 0, sizeof(*host));
    copy(host->name, address.name);
    copy(host->user, address.login);
    return true;
}

/* Take the next word off *rest_p: it ends before `stop` or white space. */
static struct piece take_word(struct piece *rest_p, char stop)
{
    struct piece rest = strip(*rest_p), word = {rest.begin, rest.begin};

    while (word.end < rest.end && *word.end != stop && !is_space(*word.end))
        word.end++;
    *rest_p = strip((struct piece){word.end, rest.end});
    return word;
}

/* KEY=VALUE, with or without white space around '='; false: there is no '='. */
static bool take_pair(struct piece *rest_p, struct piece *key_p,
                      struct piece *value_p)
{
    *key_p = take_word(rest_p, '=');
    if (rest_p->begin == rest_p->end || *rest_p->begin != '=')
        return false;
    rest_p->begin++;
    *value_p = take_word(rest_p, '\0');
    return true;
}

static bool is_one_of(struct piece key, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (equals(key, words[i]))
            return true;
    return false;
}

/* In the words of Open MPI, of which DeepSpeed has `slots`. Its bound on slots
 * is for its own ways to go beyond their number; MPICH and Intel MPI place
 * processes and choose interfaces by the others. */
static bool parse_file_pair(struct parser *p, struct piece line,
                            struct piece key, struct piece value,
                            struct host *host)
{
    static const char *const slots[] = {"slots", "slot", "cpus", "cpu",
                                        "count"};
    static const char *const read_over[] = {"max_slots", "max-slots", "binding",
                                            "ifname"};

    if (is_one_of(key, read_over, ARRAY_SIZE(read_over)))
        return true;
    if (!is_one_of(key, slots, ARRAY_SIZE(slots)))
        return refuse_word(p, line, key, " is not slots=N");
    if (p->counted)
        return refuse_why(p, line, "its number of slots is there twice");
    p->counted = true;
    return parse_slots(p, line, value, &host->slots);
}

static bool parse_drain(struct parser *p, struct piece line,
                        struct piece seconds, struct host *host)
{
    if (host->drains)
        return refuse_why(p, line, "drain= is there twice");
    host->drains = true;
    return parse_number(seconds, HOSTS_DRAIN_MAX_S, &host->drain_s) ||
           refuse_word(p, line, seconds,
                       " is not a number of seconds (0 to 1000000)");
}

/* What follows the address: ":N", and then words. */
static bool parse_rest(struct parser *p, struct piece line, const char *at,
                       struct host *host)
{
    struct piece rest = {at, line.end}, key, value = {0};

    if (at < line.end && *at == ':') {
        rest.begin++;
        p->counted = true;
        if (!parse_slots(p, line, take_word(&rest, '\0'), &host->slots))
            return false;
    } else if (at < line.end && !is_space(*at)) { /* "[fd00::1]2" */
        return refuse_why(p, line, "behind a name of a host stands :SLOTS");
    }
    rest = strip(rest);
    while (rest.begin < rest.end) {
        bool pair = take_pair(&rest, &key, &value);

        if (p->syntax == HOSTS_COMMAS)
            return refuse_why(p, line, "-H takes HOST:SLOTS, with commas");
        if (p->syntax == HOSTS_LINES && (!pair || !equals(key, "drain")))
            return refuse_why(p, line,
                              "a script prints host:slots, and may add "
                              "drain=SECONDS");
        if (!pair && !p->counted && is_digit(*key.begin)) {
            p->counted = true; /* PE_HOSTFILE: then its queue, processors */
            return parse_slots(p, line, key, &host->slots);
        }
        if (!pair)
            return refuse_word(p, line, key, " is not slots=N");
        if (p->syntax == HOSTS_LINES
                ? !parse_drain(p, line, value, host)
                : !parse_file_pair(p, line, key, value, host))
            return false;
    }
    return true;
}

static bool parse_item(struct parser *p, struct piece line, struct host *host)
{
    const char *at;

    p->counted = false;
    if (!parse_address(p, line, host, &at) || !parse_rest(p, line, at, host))
        return false;
    if (p->counted)
        return true;
    host->slots = p->default_slots;
    return p->default_slots > 0 || refuse_why(p, line, "no number of slots");
}

/* A line for each slot, as PBS and LSF write them. (What a script says twice
 * is an accident: it would give a host more workers than it has room for.) */
static bool add_slots(struct parser *p, struct piece line, struct host *old,
                      const struct host *more)
{
    if (p->syntax == HOSTS_LINES || p->counted || old->counted ||
        strcmp(old->user, more->user) != 0)
        return refuse_why(p, line, "the host is listed twice");
    if (old->slots + more->slots > HOSTS_SLOTS_MAX)
        return refuse_why(p, line, "more than 1024 slots");
    old->slots += more->slots;
    return true;
}

static bool add_item(struct parser *p, struct piece line, struct hosts *hosts,
                     struct hosts_index *x)
{
    struct host host;
    long old;

    if (!parse_item(p, line, &host))
        return false;
    host.counted = p->counted;
    old = hosts_index_find(x, host.name);
    if (old >= 0)
        return add_slots(p, line, &hosts->items[old], &host);
    if (hosts->n == HOSTS_MAX)
        return refuse_all(p, "more than 16384 hosts");
    hosts->items[hosts->n++] = host;
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
        if (line.begin < line.end && !add_item(p, line, hosts, x) &&
            (p->hopeless || p->syntax != HOSTS_LINES))
            return false;
    }
    return p->n_bad == 0 || hosts->n > 0;
}

/* How many lines there are of which the sentence does not tell. */
static void say_n_bad(struct parser *p)
{
    size_t n = strlen(p->error);

    p->said = (struct text){p->error, n, HOSTS_ERROR_MAX};
    if (p->n_bad < 2)
        return;
    say(p, " (and ");
    text_u64(&p->said, p->n_bad - 1);
    say(p, p->n_bad == 2 ? " more line)" : " more lines)");
}

/* Editors of Windows begin a text with it. */
static struct piece without_mark(struct piece text)
{
    static const char mark[] = "\xef\xbb\xbf";

    if (length(text) >= 3 && memcmp(text.begin, mark, 3) == 0)
        text.begin += 3;
    return text;
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

    error[0] = '\0';
    if (!array_reserve(&next.items, &next.max, n_max))
        return refuse_all(&p, "out of memory");
    index_init(&x, next.items, n_max);
    ok = parse_all(&p, without_mark((struct piece){text, text + nbytes}),
                   separator, &next, &x);
    hosts_index_fini(&x);
    if (!p.hopeless)
        say_n_bad(&p);
    if (!ok) {
        hosts_fini(&next);
        return false;
    }
    hosts_fini(hosts);
    *hosts = next;
    return true;
}
