/* timeline/text.c - trace events. See text.h. Pure.
 *
 * By hand and not with base/json.h: this runs for every call of a job, on a
 * processor that the job itself could use. Only text that a user has chosen
 * goes through the escapes of json.h.
 *
 * The format is the "JSON Array Format" of Chrome's trace viewer. ph X: a span,
 * B and E: its ends, b and e: the ends of one that may overlap others, i: a
 * moment, M: a name. Times are microseconds. */
#include "timeline/text.h"

#include <string.h>

#include "base/array.h"
#include "base/json.h"

static const struct {
    const char *name;
    char ph;
} phases[TIMELINE_PHASES] = {
    [TIMELINE_OPERATION] = {"", 'X'},
    [TIMELINE_QUEUE] = {"QUEUE", 'X'},
    [TIMELINE_NEGOTIATE] = {"NEGOTIATE_", 'X'},
    [TIMELINE_MEMCPY_IN] = {"MEMCPY_IN_FUSION_BUFFER", 'X'},
    [TIMELINE_TRANSPORT] = {"", 'X'},
    [TIMELINE_MEMCPY_OUT] = {"MEMCPY_OUT_FUSION_BUFFER", 'X'},
    [TIMELINE_RENDEZVOUS] = {"RENDEZVOUS", 'X'},
    [TIMELINE_GENERATION_BEGIN] = {"GENERATION ", 'B'},
    [TIMELINE_GENERATION_END] = {"GENERATION ", 'E'},
    [TIMELINE_SYNC] = {"SYNC", 'X'},
    [TIMELINE_RESTORE] = {"RESTORE", 'X'},
    [TIMELINE_COMMIT] = {"COMMIT", 'X'},
    [TIMELINE_PEER_LOST] = {"PEER_LOST", 'i'},
    [TIMELINE_HOSTS_UPDATED] = {"HOSTS_UPDATED", 'i'},
};

/* ---- pieces -------------------------------------------------------------- */

static char *put(char *at, const char *text)
{
    size_t n = strlen(text);

    memcpy(at, text, n);
    return at + n;
}

static char *put_u64(char *at, uint64_t value)
{
    char digits[20];
    size_t n = 0;

    do
        digits[sizeof(digits) - ++n] = (char)('0' + value % 10);
    while ((value /= 10) > 0);
    memcpy(at, digits + sizeof(digits) - n, n);
    return at + n;
}

/* Nanoseconds as microseconds with three decimals. */
static char *put_us(char *at, uint64_t ns)
{
    unsigned rest = (unsigned)(ns % 1000);

    at = put_u64(at, ns / 1000);
    *at++ = '.';
    *at++ = (char)('0' + rest / 100);
    *at++ = (char)('0' + rest / 10 % 10);
    *at++ = (char)('0' + rest % 10);
    return at;
}

/* Any text as a JSON string. */
static char *put_string(char *at, const char *text)
{
    enum { STRING_MAX = 6 * TIMELINE_TEXT_MAX + 1200 };
    struct json j;

    json_init_fixed(&j, at, STRING_MAX);
    json_str(&j, NULL, text);
    return json_text(&j) ? at + j.n : put(at, "\"?\"");
}

/* ,"key":  or, behind an opening brace, "key": */
static char *put_key(char *at, const char *key)
{
    if (at[-1] != '{')
        *at++ = ',';
    *at++ = '"';
    at = put(at, key);
    return put(at, "\":");
}

static char *put_number(char *at, const char *key, uint64_t value)
{
    return put_u64(put_key(at, key), value);
}

/* A word of ours, which needs no escapes. */
static char *put_word(char *at, const char *key, const char *word)
{
    at = put_key(at, key);
    *at++ = '"';
    at = put(at, word);
    *at++ = '"';
    return at;
}

static char *put_place(char *at, uint64_t pid, unsigned lane)
{
    at = put_number(at, "pid", pid);
    return put_number(at, "tid", lane);
}

/* ---- records ------------------------------------------------------------- */

static const char *kind_name(const struct timeline_words *words, unsigned kind)
{
    const char *name = kind > 0 ? words->kind(kind) : NULL;

    return name ? name : "OPERATION";
}

static char *put_name(char *at, const struct timeline_record *r,
                      const struct timeline_words *words)
{
    at = put(at, "{\"name\":\"");
    if (r->phase == TIMELINE_TRANSPORT && r->algorithm)
        at = put(at, r->algorithm);
    else
        at = put(at, phases[r->phase].name);
    if (r->phase == TIMELINE_OPERATION || r->phase == TIMELINE_NEGOTIATE ||
        (r->phase == TIMELINE_TRANSPORT && !r->algorithm))
        at = put(at, kind_name(words, r->kind));
    if (r->phase == TIMELINE_GENERATION_BEGIN ||
        r->phase == TIMELINE_GENERATION_END)
        at = put_u64(at, r->generation);
    *at++ = '"';
    return at;
}

static char *put_call_args(char *at, const struct timeline_record *r,
                           const struct timeline_words *words)
{
    const char *dtype = r->kind > 0 ? words->dtype(r->kind, r->dtype) : NULL;
    const char *op;

    if (!dtype)
        return at;
    at = put_number(at, "bytes", r->nbytes);
    at = put_number(at, "count", r->count);
    at = put_word(at, "dtype", dtype);
    op = words->op(r->kind, r->op);
    if (op)
        at = put_word(at, "op", op);
    if (r->algorithm && r->phase != TIMELINE_TRANSPORT)
        at = put_word(at, "algorithm", r->algorithm);
    return at;
}

static char *put_state_args(char *at, const struct timeline_record *r)
{
    if (r->generation > 0)
        at = put_number(at, "generation", r->generation);
    if (r->size > 0) {
        at = put_number(at, "rank", (uint64_t)r->rank);
        at = put_number(at, "size", (uint64_t)r->size);
    }
    if (r->nbytes > 0)
        at = put_number(at, "bytes", r->nbytes);
    if (r->text[0])
        at = put_string(put_key(at, "text"), r->text);
    return at;
}

static char *put_args(char *at, const struct timeline_record *r,
                      const struct timeline_words *words)
{
    at = put(at, ",\"args\":{");
    at = r->phase < TIMELINE_RENDEZVOUS ? put_call_args(at, r, words)
                                        : put_state_args(at, r);
    return put(at, "}}");
}

/* One end of a span that may overlap others of its lane: `id` joins both. */
static char *put_end(char *at, const struct timeline_record *r,
                     const struct timeline_words *words, uint64_t pid, char ph,
                     uint64_t ns)
{
    const char kind[] = {ph, '\0'};

    at = put_word(put_name(at, r, words), "ph", kind);
    at = put_word(at, "cat", "queue");
    at = put_number(at, "id", r->start_ns);
    at = put_place(at, pid, LANE_CALLS);
    at = put_us(put_key(at, "ts"), ns);
    return put_args(at, r, words);
}

size_t timeline_text(const struct timeline_record *r,
                     const struct timeline_words *words, uint64_t pid,
                     unsigned lane, char *out)
{
    const char ph[] = {phases[r->phase].ph, '\0'};
    char *at = out;

    if (r->phase == TIMELINE_QUEUE && lane == LANE_CALLS) {
        at = put(put_end(at, r, words, pid, 'b', r->start_ns), ",\n");
        return (size_t)(put_end(at, r, words, pid, 'e', r->end_ns) - out);
    }
    at = put_word(put_name(at, r, words), "ph", ph);
    at = put_place(at, pid, lane);
    at = put_us(put_key(at, "ts"), *ph == 'X' ? r->start_ns : r->end_ns);
    if (*ph == 'X')
        at = put_us(put_key(at, "dur"), r->end_ns - r->start_ns);
    if (*ph == 'i')
        at = put_word(at, "s", "p"); /* drawn across the whole process */
    return (size_t)(put_args(at, r, words) - out);
}

/* ---- the others ---------------------------------------------------------- */

size_t timeline_text_lane(uint64_t pid, unsigned lane, const char *name,
                          char *out)
{
    char *at = put(out, "{\"name\":\"thread_name\",\"ph\":\"M\"");

    at = put(put_place(at, pid, lane), ",\"args\":{");
    at = put_string(put_key(at, "name"), name);
    return (size_t)(put(at, "}}") - out);
}

size_t timeline_text_process(uint64_t pid, const char *host, int slot,
                             uint64_t job, char *out)
{
    char name[320] = "worker ", *at = name + 7;
    size_t n = strnlen(host, 256);

    at = put_u64(at, pid);
    at = put(at, " (");
    memcpy(at, host, n);
    at += n;
    *at++ = ':';
    at = put_u64(at, (uint64_t)slot);
    memcpy(at, ")", 2);
    at = put(out, "{\"name\":\"process_name\",\"ph\":\"M\"");
    at = put(put_place(at, pid, LANE_CALLS), ",\"args\":{");
    at = put_string(put_key(at, "name"), name);
    at = put_key(at, "job"); /* a string: 64 bits are too many for a double */
    *at++ = '"';
    at = put_u64(at, job);
    return (size_t)(put(at, "\"}}") - out);
}

size_t timeline_text_dropped(uint64_t pid, uint64_t n, uint64_t start_ns,
                             uint64_t end_ns, char *out)
{
    char *at = put(out, "{\"name\":\"DROPPED\",\"ph\":\"X\"");

    at = put_place(at, pid, LANE_TIMELINE);
    at = put_us(put_key(at, "ts"), start_ns);
    at = put_us(put_key(at, "dur"), end_ns - start_ns);
    at = put_number(put(at, ",\"args\":{"), "records", n);
    return (size_t)(put(at, "}}") - out);
}
