/* app.h - what app.c and entry.c, the two halves of the virtual training
 * program, share. */
#ifndef TESTS_SIM_APP_H
#define TESTS_SIM_APP_H

#include "world.h"

/* The one application event that counts; an earlier one does not any more. */
void app_set_timer(struct sim *s, struct sim_worker *w, uint64_t delay_us);
/* The snapshot gets the id (own generation, version). */
void app_restamp(struct sim *s, struct sim_worker *w, uint64_t version);
void app_report(struct sim *s, struct sim_worker *w, enum report_what what);
/* The verdict is final: return from hvd_elastic_run. */
void app_go(struct sim *s, struct sim_worker *w);
/* Whom it accuses in its LOST. */
void app_accuse(struct sim *s, struct sim_worker *w,
                const struct sim_generation *g, struct msg_lost *lost);
void app_leave_lost(struct sim *s, struct sim_worker *w);
/* The user's part of the next step. */
void app_compute(struct sim *s, struct sim_worker *w);

/* entry.c: ASSIGN was accepted; and connections are up. */
void app_begin(struct sim *s, struct sim_worker *w);
void app_connected(struct sim *s, struct sim_worker *w);

#endif
