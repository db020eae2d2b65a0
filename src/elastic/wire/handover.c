/* elastic/wire/handover.c - see handover.h. Pure.
 *
 * Read as a stream of bytes, line by line: how they are cut into pieces on
 * their way makes no difference. */
#include "elastic/wire/handover.h"

#include <string.h>

#include "base/array.h"
#include "base/text.h"

#define FIRST_LINE "hvd-agent 1"
#define LAST_LINE  "end"
#define SEPARATOR  " = "

enum { N_SECRETS = 3, DIGITS = 2 * WIRE_TOKEN_NBYTES };

static const struct {
    const char *name;
    size_t offset;
} secrets_table[N_SECRETS] = {
    {"HVD_TOKEN", offsetof(struct wire_secrets, token)},
    {"HVD_JOB_KEY", offsetof(struct wire_secrets, job_key)},
    {"HVD_DRIVER_KEY", offsetof(struct wire_secrets, driver_key)},
};

static bool is_sayable(const char *value)
{
    for (; *value; value++)
        if ((unsigned char)*value < ' ' || *value == 0x7f)
            return false;
    return true;
}

/* ---- writing ------------------------------------------------------------- */

static void add_line(struct text *t, const char *name, const char *value)
{
    text_add(t, name);
    text_add(t, SEPARATOR);
    text_add(t, value);
    text_add(t, "\n");
}

static void add_secret(struct text *t, const char *name, const uint8_t *bytes)
{
    static const char digits[] = "0123456789abcdef";
    char hex[DIGITS + 1] = "";

    for (size_t i = 0; i < WIRE_TOKEN_NBYTES; i++) {
        hex[2 * i] = digits[bytes[i] >> 4];
        hex[2 * i + 1] = digits[bytes[i] & 15];
    }
    add_line(t, name, hex);
    explicit_bzero(hex, sizeof(hex));
}

size_t handover_write(char *buf, const struct handover_word *words, size_t n,
                      const struct wire_secrets *secrets)
{
    struct text t = text_into(buf, HANDOVER_MAX);

    text_add_n(&t, "\n\n\n\n\n\n\n\n", HANDOVER_BLANK);
    text_add(&t, FIRST_LINE "\n");
    for (size_t i = 0; i < n; i++) {
        if (words[i].value && !is_sayable(words[i].value))
            return 0;
        if (words[i].value)
            add_line(&t, words[i].name, words[i].value);
    }
    for (size_t i = 0; i < N_SECRETS; i++)
        add_secret(&t, secrets_table[i].name,
                   (const uint8_t *)secrets + secrets_table[i].offset);
    text_add(&t, LAST_LINE "\n");
    return t.n < HANDOVER_MAX - 1 ? t.n : 0; /* text cuts what is too long */
}

/* ---- reading ------------------------------------------------------------- */

static void refuse(struct handover *h, const char *why)
{
    struct text t = text_into(h->text, sizeof(h->text));

    text_add(&t, "line ");
    text_u64(&t, h->n_lines);
    text_add(&t, " of the handover ");
    text_add(&t, why);
    h->state = HANDOVER_BAD;
}

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool parse_hex(const char *text, uint8_t *bytes)
{
    if (strlen(text) != DIGITS)
        return false;
    for (size_t i = 0; i < WIRE_TOKEN_NBYTES; i++) {
        int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);

        if (high < 0 || low < 0)
            return false;
        bytes[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

/* True: it was the name of one. Its value is in no sentence. */
static bool take_secret(struct handover *h, const char *name, char *value)
{
    for (unsigned i = 0; i < N_SECRETS; i++) {
        if (strcmp(name, secrets_table[i].name) != 0)
            continue;
        if (!parse_hex(value, (uint8_t *)&h->secrets + secrets_table[i].offset))
            refuse(h, "has a secret that is not 64 hexadecimal digits");
        explicit_bzero(value, strlen(value));
        h->have |= 1U << i;
        return true;
    }
    return false;
}

static void take_word(struct handover *h, const char *name, char *value)
{
    if (take_secret(h, name, value))
        return;
    if (handover_value(h, name))
        refuse(h, "says something twice");
    else if (h->n_words == HANDOVER_WORDS_MAX)
        refuse(h, "is one too many");
    else
        h->words[h->n_words++] = (struct handover_word){name, value};
}

static void take_end(struct handover *h)
{
    if (h->have != (1U << N_SECRETS) - 1)
        refuse(h, "ends it, and a secret is missing");
    else
        h->state = HANDOVER_WHOLE;
}

static void take_line(struct handover *h, char *line)
{
    char *at = strstr(line, SEPARATOR);

    if (!is_sayable(line)) {
        refuse(h, "has a character that no line can have");
    } else if (h->n_lines == 1) {
        if (strcmp(line, FIRST_LINE) != 0)
            refuse(h, "is not \"" FIRST_LINE "\"");
    } else if (strcmp(line, LAST_LINE) == 0) {
        take_end(h);
    } else if (!at || strncmp(line, "HVD_", 4) != 0) {
        refuse(h, "is not \"HVD_NAME = value\"");
    } else {
        *at = '\0';
        take_word(h, line, at + strlen(SEPARATOR));
    }
}

static void take_byte(struct handover *h, char c)
{
    if (h->n == HANDOVER_MAX) {
        refuse(h, "is beyond the 12288 bytes that it may have");
        return;
    }
    if (h->n == h->line)
        h->n_lines++;
    h->buf[h->n++] = c == '\n' ? '\0' : c;
    if (h->n_lines == 1 && c == '\n' && h->n == 1) {
        h->n = h->n_lines = 0; /* blank, before the first */
    } else if (c == '\0') {
        refuse(h, "has a character that no line can have");
    } else if (c == '\n') {
        char *line = h->buf + h->line;

        h->line = h->n;
        take_line(h, line);
    }
}

enum handover_state handover_feed(struct handover *h, const char *data,
                                  size_t nbytes)
{
    for (size_t i = 0; i < nbytes && h->state == HANDOVER_MORE; i++)
        take_byte(h, data[i]);
    return h->state;
}

const char *handover_value(const struct handover *h, const char *name)
{
    for (size_t i = 0; i < h->n_words; i++)
        if (strcmp(h->words[i].name, name) == 0)
            return h->words[i].value;
    return NULL;
}
