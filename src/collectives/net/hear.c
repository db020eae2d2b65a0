/* collectives/net/hear.c - what the kernel knows of a connection: see
 * silence.h. The only file that includes linux/tcp.h: glibc's tcp_info ends
 * before what was added last, and the two headers exclude each other. */
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>

#include "collectives/net/silence.h"

static uint64_t ago(uint64_t now_us, uint32_t ms)
{
    uint64_t us = (uint64_t)ms * 1000;

    return us < now_us ? now_us - us : 0;
}

/* In vain, though there is room at the peer's: older kernels do not tell that.
 */
static unsigned resent(const struct tcp_info *info, socklen_t len)
{
    if (len < offsetof(struct tcp_info, tcpi_snd_wnd) +
                  sizeof(info->tcpi_snd_wnd) ||
        info->tcpi_unacked == 0 || info->tcpi_snd_wnd < info->tcpi_snd_mss)
        return 0;
    return info->tcpi_retransmits;
}

bool silence_hear(int fd, uint64_t now_us, struct heard *h_p)
{
    struct tcp_info info = {0};
    socklen_t len = sizeof(info);
    uint32_t heard_ms;

    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0 ||
        len < offsetof(struct tcp_info, tcpi_notsent_bytes) +
                  sizeof(info.tcpi_notsent_bytes))
        return false;
    heard_ms = info.tcpi_last_ack_recv < info.tcpi_last_data_recv
                   ? info.tcpi_last_ack_recv
                   : info.tcpi_last_data_recv;
    *h_p = (struct heard){
        .heard_us = ago(now_us, heard_ms),
        .sent_us = ago(now_us, info.tcpi_last_data_sent),
        .rtt_us = info.tcpi_rtt,
        .in_flight = info.tcpi_unacked > 0,
        .acknowledged = info.tcpi_bytes_acked,
        .resent = resent(&info, len),
        .unsent = info.tcpi_notsent_bytes > 0,
        /* one may have been answered too recently for another answer: the
         * peer's kernel says the same twice a second at most */
        .probed = info.tcpi_probes > 1,
    };
    return true;
}
