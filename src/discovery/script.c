/* discovery/script.c - what the discovery script says. See script.h. */
#include "discovery/script.h"

#include <sys/wait.h>

#include "base/error.h"

static const char who[] = "--host-discovery-script";

hvd_status_t script_init(struct command *c, const char *path,
                         uint64_t timeout_us)
{
    return command_init(c, who, path, timeout_us);
}

/* A shell exits with 126 or 127 for a program that it cannot run, and so does
 * a child of command_start(). */
static bool is_mistake(int wait_status)
{
    int code = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 0;

    return code == 2 || code == 126 || code == 127;
}

enum script_result script_step(struct command *c, uint64_t now_us,
                               uint32_t default_slots, struct hosts *hosts,
                               char *skipped)
{
    switch (command_step(c, now_us)) {
    case COMMAND_RUNNING:
        return SCRIPT_RUNNING;
    case COMMAND_FAILED:
        return is_mistake(c->wait_status) ? SCRIPT_WRONG : SCRIPT_FAILED;
    case COMMAND_DONE:
        break;
    }
    if (hosts_parse(c->output ? c->output : "", c->n_output, HOSTS_LINES,
                    default_slots, hosts, skipped))
        return SCRIPT_HOSTS;
    error_set(HVD_ERR_INVALID, "%s: \"%s\": %s", who, c->path, skipped);
    return SCRIPT_WRONG;
}
