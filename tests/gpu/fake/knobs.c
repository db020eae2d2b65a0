/* knobs.c - see fake.h. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fake.h"

static const char *const names[FAKE_KNOBS] = {
    "devices",    "uuid",          "by_host", "memory",          "late_us",
    "enqueue_us", "silent",        "version", "revoke",          "init_hang_ms",
    "init_fail",  "abort_hang_ms", "part_ms", "enqueue_hang_at", "error_at",
    "sticky_at",  "break_at",      "worker",  "hold_at"};

static long values[FAKE_KNOBS] = {
    [FAKE_DEVICES] = 1,      [FAKE_MEMORY] = 1L << 40, [FAKE_LATE_US] = 50,
    [FAKE_ENQUEUE_US] = 100, [FAKE_VERSION] = 22809,   [FAKE_REVOKE] = 1};

static void set(const char *word)
{
    const char *equals = strchr(word, '=');
    size_t n = equals != NULL ? (size_t)(equals - word) : 0;

    for (int i = 0; i < FAKE_KNOBS; i++)
        if (n > 0 && strlen(names[i]) == n && memcmp(names[i], word, n) == 0) {
            values[i] = atol(equals + 1);
            return;
        }
    fprintf(stderr, "FAKE_GPU: no knob \"%s\"\n", word);
    abort();
}

static void read_knobs(void)
{
    const char *text = getenv("FAKE_GPU");
    char words[1024], *next, *word;

    if (text == NULL)
        return;
    snprintf(words, sizeof(words), "%s", text);
    for (word = strtok_r(words, " ", &next); word != NULL;
         word = strtok_r(NULL, " ", &next))
        set(word);
}

long fake_knob(enum fake_knob knob)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, read_knobs);
    return values[knob];
}

void fake_pause_us(long us)
{
    struct timespec ts = {.tv_sec = us / 1000000,
                          .tv_nsec = us % 1000000 * 1000};

    if (us > 0)
        nanosleep(&ts, NULL);
}
