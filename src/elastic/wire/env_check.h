/* elastic/wire/env_check.h - values of the variables that a user sets for
 * workers (env.h): the driver checks those that it passes on, and a worker
 * those that it finds. Threads: any. */
#ifndef ELASTIC_WIRE_ENV_CHECK_H
#define ELASTIC_WIRE_ENV_CHECK_H

#include <hvd/status.h>

/* Which of its words the value is, from 0 on; "" is the first. -1: none, with
 * error_text(). Of a variable that takes one of a few words. */
int env_choose(const char *variable, const char *value);

/* Takes any variable. HVD_ERR_INVALID with the sentence. HVD_ALGORITHM, and
 * values that depend on the worker's machine, are not checked here. */
hvd_status_t env_check(const char *variable, const char *value) HVD_MUST_CHECK;

#endif
