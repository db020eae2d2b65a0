/* elastic/agent/claims.c - a worker whose descriptors a wrapper has closed asks
 * for them here. See wire/claim.h; descent.h decides.
 *
 * The agent reads a small file of /proc for each ancestor of a process that
 * asks, and looks at a bounded number of datagrams in one turn of its loop: a
 * flood delays the workers that wait at this socket, and nothing else.
 *
 * Threads: the loop's. Memory: none. */
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/proc.h"
#include "elastic/agent/descent.h"
#include "elastic/agent/loop_internal.h"

enum { CLAIMS_MAX = 16, OURS_MAX = 1024 }; /* in a turn; processes of workers */

void claims_open(struct loop *l)
{
    l->site.socket = l->claim_name;
    if (claim_listen(l->claim_name, &l->claim_fd) == HVD_OK &&
        loop_watch(l, l->claim_fd, KIND_CLAIM, 0))
        return;
    log_debug("%s -> workers behind programs that close descriptors fail",
              error_text());
    fd_close(&l->claim_fd);
    l->claim_name[0] = '\0';
}

void claims_close(struct loop *l)
{
    fd_close(&l->claim_fd);
}

static size_t list_ours(const struct children *children, pid_t *pids)
{
    size_t n = 0;

    for (const struct child *c = children->first; c && n < OURS_MAX;
         c = c->next)
        if (c->pid > 0)
            pids[n++] = c->pid;
    if (children->helper && children->helper->pid > 0 && n < OURS_MAX)
        pids[n++] = children->helper->pid;
    return n;
}

static void judge(struct loop *l, const struct claim *claim)
{
    struct child *child = children_find(&l->children, claim->worker);
    pid_t line[PROC_LINE_MAX], ours[OURS_MAX];
    struct descent d = {.line = line,
                        .n = proc_line(claim->pid, line),
                        .agent = getpid(),
                        .own = child ? child->pid : 0,
                        .ours = ours,
                        .n_ours = list_ours(&l->children, ours),
                        .same_user = proc_is_of(claim->pid, claim->uid),
                        .taken = child ? child->taken : 0};
    enum claim_verdict verdict = descent_judge(&d);

    if (verdict == CLAIM_GRANTED)
        child->taken = claim->pid;
    if (!claim->tells)
        claim_answer(l->claim_fd, claim, verdict,
                     child ? child->passed_fds : NULL);
    log_debug("process %d is worker %llu: %s", (int)claim->pid,
              (unsigned long long)claim->worker,
              verdict == CLAIM_GRANTED ? "yes"
              : verdict == CLAIM_TAKEN ? "another is already"
                                       : "does not descend from it");
}

void claims_look(struct loop *l)
{
    struct claim claim;

    for (int i = 0; i < CLAIMS_MAX && claim_receive(l->claim_fd, &claim); i++)
        if (claim.pid > 0)
            judge(l, &claim);
}
