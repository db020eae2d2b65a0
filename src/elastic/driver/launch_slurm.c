/* elastic/driver/launch_slurm.c - agents on the nodes of a Slurm job, each the
 * one task of a step of its own, at the other end of srun. See launch.h and
 * launch_client.h.
 *
 * srun has a child that ends the step when srun is killed, and so it is killed
 * alone: without the two the task would run on, and not even hear that its
 * stdin has ended. SIGTERM does not reach the task either way. That srun has
 * ended with status 0 says nothing: it does so when the node is lost, too.
 *
 * srun and squeue take variables of salloc, sbatch and users for options. They
 * get none but those that say where Slurm is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/error.h"
#include "elastic/driver/launch_client.h"
#include "elastic/driver/slurm.h"

enum { NUMBER_MAX = 64 };

/* Of a pool: the job that has this node. */
#define POOL_SCRIPT                                                     \
    "host=$1 name=$2; shift 2; "                                        \
    "job=$(squeue -h -r -S i -t RUNNING -u \"$(id -un)\" -n \"$name\" " \
    "-w \"$host\" -o %A) || exit; "                                     \
    "job=${job%%[!0-9]*}; "                                             \
    "[ \"$job\" ] || "                                                  \
    "{ echo \"no job $name runs on $host\" >&2; exit 1; }; "            \
    "exec srun --jobid=\"$job\" \"$@\""

struct srun {
    struct launch_client client;
    char job[NUMBER_MAX], node[HOSTS_NAME_MAX + NUMBER_MAX];
    char host[HOSTS_NAME_MAX];
};

static bool begins_with_one_of(const char *entry, const char *const *words,
                               size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strncmp(entry, words[i], strlen(words[i])) == 0)
            return true;
    return false;
}

static bool is_kept(const char *entry)
{
    static const char *const kept[] = {"SLURM_CONF=", "SLURM_CLUSTERS=",
                                       "SLURM_WORKING_CLUSTER=", "SLURM_JWT="};
    static const char *const options[] = {"SLURM_", "SRUN_", "SQUEUE_"};

    return begins_with_one_of(entry, kept, ARRAY_SIZE(kept)) ||
           !begins_with_one_of(entry, options, ARRAY_SIZE(options));
}

static const char *slurm_program(void)
{
    return slurm_pool() ? "sh" : "srun";
}

/* The job that we are in, or a shell that looks for one. */
static hvd_status_t say_job(struct srun *s)
{
    struct launch_client *c = &s->client;

    if (slurm_pool()) {
        launch_client_add(c, "sh");
        launch_client_add(c, "-c");
        launch_client_add(c, POOL_SCRIPT);
        launch_client_add(c, "sh");
        launch_client_add(c, s->host);
        launch_client_add(c, slurm_pool());
        return HVD_OK;
    }
    if (!slurm_job() || strlen(slurm_job()) > NUMBER_MAX / 2)
        return error_set(HVD_ERR_INVALID, "SLURM_JOB_ID is no job");
    snprintf(s->job, sizeof(s->job), "--jobid=%s", slurm_job());
    launch_client_add(c, "srun");
    launch_client_add(c, s->job);
    return HVD_OK;
}

static void say_step(struct srun *s)
{
    static const char *const words[] = {
        "--overlap", /* with the job's other steps, of which one may be us */
        "--nodes=1",    "--ntasks=1",      "--mem=0", /* all of the job's */
        "--mpi=none",   "--cpu-bind=none",            /* the agent is no rank */
        "--no-kill",    "--wait=0",        "--kill-on-bad-exit=0",
        "--unbuffered", "--export=ALL"};

    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        launch_client_add(&s->client, words[i]);
    snprintf(s->node, sizeof(s->node), "--nodelist=%s", s->host);
    launch_client_add(&s->client, s->node);
    launch_client_add(&s->client, "sh");
    launch_client_add(&s->client, "-c");
    launch_client_add(&s->client, LAUNCH_CLIENT_SCRIPT);
    launch_client_add(&s->client, s->client.agent);
}

static hvd_status_t start_slurm(const struct launch_config *config,
                                struct launched *item)
{
    struct srun *s = calloc(1, sizeof(*s));
    hvd_status_t status;

    if (!s)
        return error_set(HVD_ERR_NOMEM, "no memory for an agent");
    snprintf(s->host, sizeof(s->host), "%s", item->host);
    status = launch_client_find(&s->client, config, slurm_program());
    if (status == HVD_OK)
        status = say_job(s);
    if (status == HVD_OK) {
        say_step(s);
        status = launch_client_start(&s->client, config, is_kept, item);
    }
    free(s);
    return status;
}

const struct launch_ops launch_slurm = {.name = "srun",
                                        .client = true,
                                        .program = slurm_program,
                                        .shepherd = true,
                                        .start = start_slurm};
