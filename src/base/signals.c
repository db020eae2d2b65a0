/* base/signals.c - see signals.h. */
#include "base/signals.h"

#include <signal.h>
#include <stddef.h>

void signals_reset(void)
{
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigset_t none;

    for (int s = 1; s < NSIG; s++)
        sigaction(s, &plain, NULL); /* some may not be changed: fine */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}
