/* base/signals.h - what a child does before it becomes another program.
 * Threads: async-signal-safe. */
#ifndef BASE_SIGNALS_H
#define BASE_SIGNALS_H

/* All as a program expects them: no handler, none ignored, none blocked. */
void signals_reset(void);

#endif
