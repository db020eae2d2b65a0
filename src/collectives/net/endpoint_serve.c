/* collectives/net/endpoint_serve.c - an endpoint that is driven by itself,
 * while nobody drives a comm. See endpoint.h. */
#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/error.h"
#include "collectives/net/endpoint_impl.h"

static hvd_status_t serve_once(struct endpoint *ep, int wake_fd,
                               uint64_t deadline_us, struct pollfd *pfds,
                               size_t pfds_max, bool *woken_p)
{
    uint64_t until_us = endpoint_deadline(ep);
    size_t n = endpoint_fds_fill(ep, pfds + 1, pfds_max - 1) + 1;
    int ready;

    until_us = deadline_us < until_us ? deadline_us : until_us;
    pfds[0] = (struct pollfd){wake_fd, POLLIN, 0};
    ready = poll(pfds, n, clock_poll_ms(clock_now_us(), until_us));
    if (ready < 0 && errno != EINTR)
        return error_errno("poll");
    *woken_p = ready > 0 && pfds[0].revents != 0;
    endpoint_drive(ep, NULL);
    return HVD_OK;
}

hvd_status_t endpoint_serve(struct endpoint *ep, int wake_fd,
                            uint64_t deadline_us)
{
    struct pollfd *pfds = NULL;
    size_t pfds_max = 0;
    hvd_status_t status = HVD_OK;
    bool woken = false;

    while (status == HVD_OK && !woken) {
        if (!array_reserve(&pfds, &pfds_max, endpoint_fds_count(ep) + 1)) {
            status = error_set(HVD_ERR_NOMEM, "endpoint");
            break;
        }
        status = serve_once(ep, wake_fd, deadline_us, pfds, pfds_max, &woken);
        if (status == HVD_OK && !woken && clock_now_us() >= deadline_us)
            status = error_set(HVD_ERR_TIMEOUT, "nothing before the deadline");
    }
    free(pfds);
    return status;
}
