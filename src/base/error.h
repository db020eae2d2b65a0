/* base/error.h - the text behind a status, per thread.
 *
 * Whoever first decides a status other than HVD_OK writes the sentence (what,
 * where, which peer, errno) with error_set(); as it rises, callers may put
 * words in front of it with error_prefix(). hvd_last_error() shows it to the
 * user.
 *
 * Threads: thread-local. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <hvd/status.h>

enum { ERROR_TEXT_MAX = 512 };

/* Set this thread's sentence and return `status`. */
hvd_status_t error_set(hvd_status_t status, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The same with ": <strerror(errno)>" appended; returns HVD_ERR_SYSTEM. */
hvd_status_t error_errno(const char *fmt, ...)
    __attribute__((format(printf, 1, 2)));

/* Put "<words>: " in front of the sentence, unless status is HVD_OK; returns
 * `status` unchanged. */
hvd_status_t error_prefix(hvd_status_t status, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* This thread's sentence; "" if none. */
const char *error_text(void);
void error_clear(void);

#endif
