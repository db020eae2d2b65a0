/* elastic/agent/words.c - what an agent says to its driver. See core.h.
 *
 * Pure. */
#include <string.h>

#include "base/array.h"
#include "elastic/agent/core.h"

const struct agent_child *agent_core_child(const struct agent_core *core,
                                           uint64_t worker)
{
    for (size_t i = core->n_children; i > 0; i--)
        if (core->children[i - 1].worker == worker)
            return &core->children[i - 1];
    return NULL;
}

static void fill_notice(const struct agent_core *core,
                        struct msg_notice *notice)
{
    uint64_t left_us = core->go_us > core->now_us ? core->go_us - core->now_us
                                                  : 0;

    notice->left_ms = core->go_us == AGENT_NEVER ? NOTICE_UNKNOWN
                                                 : left_us / 1000;
    memcpy(notice->text, core->notice, sizeof(notice->text));
}

static void fill_report(const struct agent_child *child, struct message *m)
{
    if (m->type == MSG_SPAWNED) {
        m->u.spawned.worker = child->worker;
        m->u.spawned.pid = child->pid;
        m->u.spawned.slot = child->slot;
    } else if (m->type == MSG_SPAWN_FAILED) {
        m->u.spawn_failed.worker = child->worker;
        m->u.spawn_failed.error = child->error;
        memcpy(m->u.spawn_failed.text, child->text, sizeof(child->text));
    } else {
        m->u.worker_exited.worker = child->worker;
        m->u.worker_exited.pid = child->pid;
        m->u.worker_exited.slot = child->slot;
        m->u.worker_exited.code = child->code;
        m->u.worker_exited.signal = child->signal;
        m->u.worker_exited.core = child->core;
    }
}

void agent_core_message(const struct agent_core *core,
                        const struct agent_action *action, struct message *m)
{
    const struct agent_child *child = agent_core_child(core, action->worker);

    HVD_ASSERT(action->type == AGENT_DO_SEND);
    memset(m, 0, sizeof(*m));
    m->type = action->message;
    m->job = core->config.job;
    if (m->type == MSG_AGENT_HELLO) {
        m->u.agent_hello = core->config.hello;
        m->u.agent_hello.n_alive = core->n_live;
    } else if (m->type == MSG_AGENT_PING) {
        m->u.agent_ping.stamp_us = core->now_us;
        m->u.agent_ping.n_alive = core->n_live;
        m->u.agent_ping.sees_dir = core->sees_dir;
    } else if (m->type == MSG_NOTICE) {
        fill_notice(core, &m->u.notice);
    } else {
        HVD_ASSERT(child);
        fill_report(child, m);
    }
}
