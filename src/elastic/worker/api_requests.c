/* elastic/worker/api_requests.c - hvd/collectives.h: waiting for calls that
 * were queued, and hvd_data_done().
 *
 * Threads: one at a time; of calls by name any. Memory: none. */
#include <stdio.h>

#include <hvd/collectives.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/world.h"
#include "collectives/by_name.h"
#include "collectives/completion.h"
#include "collectives/request.h"
#include "elastic/worker/collective.h"
#include "elastic/worker/process.h"
#include "elastic/worker/sets.h"
#include "elastic/worker/static.h"

/* May this thread take the request? If not, the request stays as it is. */
static hvd_status_t may_take(const char *call, hvd_request_t *const *request_p)
{
    if (request_p == NULL)
        return error_set(HVD_ERR_INVALID, "%s: request_p is NULL", call);
    if (atomic_load(&process_self.forked))
        return error_set(HVD_ERR_INVALID, "%s: called in a forked child", call);
    if (ragged_is_placing())
        return error_set(HVD_ERR_STATE, "%s: called by a place function", call);
    return HVD_OK;
}

/* The driver is told of waits for calls in order, and of those by name on the
 * thread that trains. A request may outlive its generation, and hvd_shutdown():
 * then only the caller wants to know how it ended. */
static bool is_shown(const hvd_request_t *request)
{
    struct world world;

    world_get(&world);
    return (!request->by_name || process_is_app()) &&
           request->generation == world.generation;
}

static hvd_status_t take(hvd_request_t **request_p)
{
    hvd_request_t *request = *request_p;

    if (request == NULL)
        return HVD_OK;
    *request_p = NULL;
    if (!is_shown(request))
        return request_wait(request);
    if (request->by_name) {
        collective_enter_by_name();
        return collective_leave_by_name(request_wait(request));
    }
    collective_enter();
    return collective_leave(request_wait(request));
}

hvd_status_t hvd_wait(hvd_request_t **request_p)
{
    HVD_TRY(may_take("hvd_wait", request_p));
    return take(request_p);
}

hvd_status_t hvd_wait_all(size_t n, hvd_request_t **requests)
{
    hvd_status_t first = HVD_OK;
    char text[ERROR_TEXT_MAX];

    if (n == 0)
        return HVD_OK;
    HVD_TRY(may_take("hvd_wait_all", requests));
    for (size_t i = 0; i < n; i++) {
        hvd_status_t status = take(&requests[i]);

        if (first != HVD_OK || status == HVD_OK)
            continue;
        first = status;
        snprintf(text, sizeof(text), "%s", error_text());
    }
    return first == HVD_OK ? HVD_OK : error_set(first, "%s", text);
}

/* Meanwhile the progress thread drives the call. */
static bool await(hvd_request_t *request, uint64_t until_us)
{
    bool shown = is_shown(request), by_name = request->by_name, done;

    if (!shown)
        return completion_await(request, until_us);
    by_name ? collective_enter_by_name() : collective_enter();
    done = completion_await(request, until_us);
    by_name ? collective_exit_by_name() : collective_exit();
    return done;
}

/* HVD_OK: it is complete, or there is none. */
static hvd_status_t await_for(const char *call, hvd_request_t *request,
                              unsigned timeout_ms)
{
    uint64_t until_us = clock_now_us() + (uint64_t)timeout_ms * 1000;

    if (request == NULL || request_test(request) || await(request, until_us))
        return HVD_OK;
    return error_set(HVD_ERR_TIMEOUT,
                     "%s: the call is not complete after %u ms", call,
                     timeout_ms);
}

hvd_status_t hvd_wait_for(hvd_request_t **request_p, unsigned timeout_ms)
{
    HVD_TRY(may_take("hvd_wait_for", request_p));
    HVD_TRY(await_for("hvd_wait_for", *request_p, timeout_ms));
    return take(request_p);
}

hvd_status_t hvd_wait_result(hvd_request_t **request_p, unsigned timeout_ms,
                             void **result_p, size_t *counts)
{
    const char *call = "hvd_wait_result";
    hvd_request_t *request;

    if (result_p == NULL)
        return error_set(HVD_ERR_INVALID, "%s: result_p is NULL", call);
    *result_p = NULL;
    HVD_TRY(may_take(call, request_p));
    request = *request_p;
    if (request == NULL || request->args.place != ragged_own_place)
        return error_set(HVD_ERR_INVALID,
                         "%s: the call has a place of its own, or there is "
                         "none",
                         call);
    HVD_TRY(await_for(call, request, timeout_ms));
    request->ragged.result_p = result_p;
    request->ragged.counts_p = counts;
    return take(request_p);
}

hvd_status_t hvd_test(hvd_request_t **request_p, bool *done_p)
{
    if (done_p == NULL)
        return error_set(HVD_ERR_INVALID, "hvd_test: done_p is NULL");
    *done_p = false;
    HVD_TRY(may_take("hvd_test", request_p));
    *done_p = *request_p == NULL || request_test(*request_p);
    return *done_p ? take(request_p) : HVD_OK;
}

hvd_status_t hvd_event_fd(int *fd_p)
{
    if (fd_p == NULL)
        return error_set(HVD_ERR_INVALID, "hvd_event_fd: fd_p is NULL");
    *fd_p = -1;
    HVD_TRY(process_check("hvd_event_fd"));
    return error_prefix(completion_fd(fd_p), "hvd_event_fd");
}

hvd_status_t hvd_data_done(hvd_comm_t *comm, int *last_rank_p)
{
    struct comm *its;
    int last;
    hvd_status_t status;

    HVD_TRY(static_world("hvd_data_done"));
    HVD_TRY(error_prefix(sets_find(comm, &its), "hvd_data_done"));
    collective_enter();
    status = error_prefix(by_name_join(its, &last), "hvd_data_done");
    if (status == HVD_OK && last_rank_p)
        *last_rank_p = last;
    return collective_leave(status);
}
