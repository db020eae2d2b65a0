/* elastic/driver/options_near.c - which option an unknown word may mean: one
 * that another launcher has under this name, or one that is spelled nearly so.
 * See options_internal.h. */
#include <ctype.h>
#include <string.h>

#include "base/array.h"
#include "elastic/driver/options_internal.h"

enum { WORD_MAX = 32, FAR = 3 /* edits: another word */ };

/* Of mpirun, mpiexec, srun, torchrun and accelerate. */
static const struct {
    const char *word, *ours;
} foreign[] = {
    {"n", "-np"},
    {"np", "-np"},
    {"nproc", "-np"},
    {"nprocs", "-np"},
    {"num-procs", "-np"},
    {"num-processes", "-np"},
    {"num-workers", "-np"},
    {"nproc-per-node", "-np, or -H HOST:SLOTS"},
    {"ntasks", "-np"},
    {"ntasks-per-node", "-H HOST:SLOTS"},
    {"npernode", "-H HOST:SLOTS"},
    {"pernode", "-H HOST:1"},
    {"perhost", "-H HOST:SLOTS"},
    {"ppn", "-H HOST:SLOTS"},
    {"nnodes", "--min-np and --max-np"},
    {"host", "-H"},
    {"hostlist", "-H"},
    {"nodelist", "-H"},
    {"f", "--hostfile"},
    {"machinefile", "--hostfile"},
    {"iface", "--network-interface"},
    {"vv", "--verbose"},
    {"vvv", "--verbose"},
    {"genv", "-x"},
    {"export", "-x"},
    {"wdir", "a program that changes its directory: workers start in this one"},
    {"log-dir", "--output-filename"},
    {"redirects", "--output-filename"},
    {"tee", "--output-filename"},
    {"discovery-script", "--host-discovery-script"},
    {"standalone", "-np alone: without hosts it is this machine"},
    {"timeout", "--elastic-timeout, --start-timeout or --driver-timeout"},
    {"max-restarts", "--slot-restarts or --reset-limit"},
};

/* The word without its dashes and value, in lower case, '_' as '-': "np" of
 * "--NP=4" and of "-np4". False: it is too long to be meant. */
static bool plain(const char *word, char *out)
{
    bool one_dash = word[0] == '-' && word[1] != '-';
    size_t n = 0;

    word += strspn(word, "-");
    for (; *word != '\0' && *word != '='; word++) {
        if (n == WORD_MAX - 1)
            return false;
        out[n++] = *word == '_' ? '-' : (char)tolower((unsigned char)*word);
    }
    while (one_dash && n > 0 && isdigit((unsigned char)out[n - 1]))
        n--;
    out[n] = '\0';
    return n > 0;
}

static unsigned least(unsigned a, unsigned b, unsigned c)
{
    unsigned m = a < b ? a : b;

    return m < c ? m : c;
}

/* Letters to insert, delete or replace until `a` is `b`. */
static unsigned distance(const char *a, const char *b)
{
    unsigned row[WORD_MAX];
    size_t n = strlen(b);

    if (n >= WORD_MAX)
        return FAR;
    for (unsigned j = 0; j <= n; j++)
        row[j] = j;
    for (unsigned i = 0; a[i] != '\0'; i++) {
        unsigned corner = row[0];

        row[0] = i + 1;
        for (size_t j = 0; j < n; j++) {
            unsigned above = row[j + 1];

            row[j + 1] = least(above + 1, row[j] + 1, corner + (a[i] != b[j]));
            corner = above;
        }
    }
    return row[n];
}

static const char *spelled_nearly(const char *word)
{
    const char *nearest = NULL;
    unsigned best = strlen(word) < 2 * FAR ? FAR - 1 : FAR;

    for (size_t i = 0; i < options_n_rows; i++) {
        unsigned d = distance(word, options_table[i].name);

        if (d < best) {
            best = d;
            nearest = options_table[i].name;
        }
    }
    return nearest;
}

/* Of a value that is attached to a letter, as in -Hlocalhost:2: the letter and
 * the name of its value. */
static bool detached(const char *word, char *text, size_t max)
{
    for (size_t i = 0; i < options_n_rows; i++) {
        const struct options_row *row = &options_table[i];

        if (row->dashed && row->value && strlen(row->dashed) == 2 &&
            strncmp(word, row->dashed, 2) == 0) {
            snprintf(text, max, "%s %s", row->dashed, row->value);
            return true;
        }
    }
    return false;
}

bool options_near(const char *word, char *text, size_t max)
{
    char bare[WORD_MAX];
    const char *name;

    if (!plain(word, bare))
        return detached(word, text, max);
    for (size_t i = 0; i < ARRAY_SIZE(foreign); i++)
        if (strcmp(bare, foreign[i].word) == 0) {
            snprintf(text, max, "%s", foreign[i].ours);
            return true;
        }
    name = spelled_nearly(bare);
    if (!name)
        return detached(word, text, max);
    snprintf(text, max, "--%s", name);
    return true;
}

static bool is_word(const char *word, const char *name)
{
    size_t n = name ? strlen(name) : 0;

    return name && strncmp(word, name, n) == 0 &&
           (word[n] == '\0' || word[n] == '=');
}

bool options_is_option(const char *word)
{
    for (size_t i = 0; i < options_n_rows; i++) {
        const struct options_row *row = &options_table[i];

        if (is_word(word, row->dashed) ||
            (strncmp(word, "--", 2) == 0 &&
             (is_word(word + 2, row->name) || is_word(word + 2, row->alias))))
            return true;
    }
    return strcmp(word, "-n") == 0;
}
