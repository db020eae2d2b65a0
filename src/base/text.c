/* base/text.c - see text.h. Pure. */
#include "base/text.h"

#include <signal.h>

#include <string.h>

#include "base/array.h"

struct text text_into(char *buf, size_t max)
{
    HVD_ASSERT(max > 0);
    buf[0] = '\0';
    return (struct text){buf, 0, max};
}

void text_add_n(struct text *t, const char *words, size_t n)
{
    size_t room = t->max - 1 - t->n;

    if (n > room)
        n = room;
    memcpy(t->buf + t->n, words, n);
    t->n += n;
    t->buf[t->n] = '\0';
}

void text_add(struct text *t, const char *words)
{
    text_add_n(t, words, strnlen(words, t->max - 1 - t->n));
}

void text_u64(struct text *t, uint64_t value)
{
    char digits[20];
    size_t i = sizeof(digits);

    do
        digits[--i] = (char)('0' + value % 10);
    while (value /= 10);
    text_add_n(t, digits + i, sizeof(digits) - i);
}

void text_scaled(struct text *t, int64_t value, unsigned digits)
{
    uint64_t size = value < 0 ? -(uint64_t)value : (uint64_t)value, unit = 1;

    for (unsigned i = 0; i < digits; i++)
        unit *= 10;
    text_add(t, value < 0 ? "-" : "");
    text_u64(t, size / unit);
    text_add(t, digits > 0 ? "." : "");
    while (unit >= 10) {
        size %= unit;
        unit /= 10;
        text_u64(t, size / unit);
    }
}

#define NAME(signo) \
    case signo:     \
        return #signo

static const char *signal_name(int64_t signo)
{
    switch (signo) {
        NAME(SIGHUP);
        NAME(SIGINT);
        NAME(SIGQUIT);
        NAME(SIGILL);
        NAME(SIGTRAP);
        NAME(SIGABRT);
        NAME(SIGBUS);
        NAME(SIGFPE);
        NAME(SIGKILL);
        NAME(SIGUSR1);
        NAME(SIGSEGV);
        NAME(SIGUSR2);
        NAME(SIGPIPE);
        NAME(SIGALRM);
        NAME(SIGTERM);
        NAME(SIGSTKFLT);
        NAME(SIGCHLD);
        NAME(SIGCONT);
        NAME(SIGSTOP);
        NAME(SIGTSTP);
        NAME(SIGTTIN);
        NAME(SIGTTOU);
        NAME(SIGURG);
        NAME(SIGXCPU);
        NAME(SIGXFSZ);
        NAME(SIGVTALRM);
        NAME(SIGPROF);
        NAME(SIGWINCH);
        NAME(SIGIO);
        NAME(SIGPWR);
        NAME(SIGSYS);
    default:
        return NULL;
    }
}

void text_signal(struct text *t, int64_t signo)
{
    const char *name = signal_name(signo);

    text_add(t, name ? name : "signal ");
    if (!name)
        text_u64(t, (uint64_t)signo);
}

/* The number is what people look for, the name is what they know. */
void text_killed(struct text *t, int64_t signo)
{
    const char *name = signal_name(signo);

    text_add(t, "was killed by signal ");
    text_u64(t, (uint64_t)signo);
    if (name) {
        text_add(t, " (");
        text_add(t, name);
        text_add(t, ")");
    }
    if (signo == SIGXCPU)
        text_add(t, ": the limit of processor time (ulimit -t)");
    if (signo == SIGXFSZ)
        text_add(t, ": the limit of a file's size (ulimit -f)");
}
