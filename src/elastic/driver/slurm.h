/* elastic/driver/slurm.h - what the environment says of Slurm: whether there is
 * an allocation that hosts can come from, how many workers it is made for, and
 * where the discovery script of it lies.
 *
 * Touches the world: environment, PATH, the script. Threads: before any is
 * started, or the driver's main thread. */
#ifndef ELASTIC_DRIVER_SLURM_H
#define ELASTIC_DRIVER_SLURM_H

#include <stdbool.h>
#include <stdint.h>

#include <hvd/status.h>

/* The job that we are in; NULL: in none. */
const char *slurm_job(void);

/* The name of the jobs whose hosts are to be used instead; or NULL. */
const char *slurm_pool(void);

/* There is one of the two, and srun. */
bool slurm_is_here(void);

/* Of a text like "2(x3),1", as in SLURM_TASKS_PER_NODE: 7. 0: it is none, or
 * more than `most`. */
uint32_t slurm_count_tasks(const char *text, uint32_t most);

/* How many tasks srun would start in the job that we are in; 0: nothing says
 * so, or more than `most`. */
uint32_t slurm_tasks(uint32_t most);

/* path [PATH_MAX]. HVD_ERR_SYSTEM: it is not there, with the sentence. */
hvd_status_t slurm_find_discovery(char *path) HVD_MUST_CHECK;

#endif
