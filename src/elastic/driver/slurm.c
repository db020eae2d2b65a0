/* elastic/driver/slurm.c - see slurm.h. */
#include "elastic/driver/slurm.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "elastic/driver/launch_process.h"

static const char *word_of(const char *name)
{
    const char *value = getenv(name);

    return value && *value ? value : NULL;
}

const char *slurm_job(void)
{
    return word_of("SLURM_JOB_ID");
}

const char *slurm_pool(void)
{
    return word_of("HVD_SLURM_JOB_NAME");
}

bool slurm_is_here(void)
{
    char path[PATH_MAX];

    return (slurm_job() || slurm_pool()) && launch_find_program("srun", path);
}

/* A number at *text, which is moved behind it; 0: there is none. */
static uint64_t read_number(const char **text, uint64_t most)
{
    uint64_t n = 0;

    for (; **text >= '0' && **text <= '9' && n <= most; (*text)++)
        n = 10 * n + (uint64_t)(**text - '0');
    return n <= most ? n : 0;
}

uint32_t slurm_count_tasks(const char *text, uint32_t most)
{
    uint64_t sum = 0, n, times;

    while (sum <= most) {
        n = read_number(&text, most);
        times = 1;
        if (strncmp(text, "(x", 2) == 0) {
            text += 2;
            times = read_number(&text, most);
            if (*text++ != ')')
                return 0;
        }
        sum += n * times;
        if (n * times == 0 || (*text != ',' && *text != '\0'))
            return 0;
        if (*text++ == '\0')
            return sum <= most ? (uint32_t)sum : 0;
    }
    return 0;
}

static uint32_t count_of(const char *name, uint32_t most)
{
    const char *text = word_of(name);

    return text ? slurm_count_tasks(text, most) : 0;
}

/* Without a number of tasks srun starts one on each node, whereas
 * SLURM_TASKS_PER_NODE counts CPUs. */
uint32_t slurm_tasks(uint32_t most)
{
    if (word_of("SLURM_NTASKS"))
        return count_of("SLURM_NTASKS", most);
    if (!word_of("SLURM_NTASKS_PER_NODE") && word_of("SLURM_JOB_NUM_NODES"))
        return count_of("SLURM_JOB_NUM_NODES", most);
    return count_of("SLURM_TASKS_PER_NODE", most);
}

hvd_status_t slurm_find_discovery(char *path)
{
    static const char *const beside[] = {
        "../share/hvd-elastic/slurm/discover.sh", /* installed */
        "../../../examples/slurm/discover.sh"};   /* where it was built */

    if (launch_find_beside(beside, 2, path))
        return HVD_OK;
    strcpy(path, SLURM_SCRIPTS "/discover.sh");
    if (access(path, X_OK) == 0)
        return HVD_OK;
    return error_set(HVD_ERR_SYSTEM, "no script that asks Slurm for hosts at "
                                     "\"" SLURM_SCRIPTS "/discover.sh\"");
}
