/* elastic/wire/secret.c - handing a secret to a child through a sealed memfd,
 * so that it is in no argv, environment or file. See socket.h.
 *
 * Threads: any. Memory: none. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "elastic/wire/socket.h"

static hvd_status_t write_all(int fd, const uint8_t *data, size_t nbytes)
{
    while (nbytes > 0) {
        ssize_t n = write(fd, data, nbytes);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_errno("cannot write a secret to memory%s",
                               errno == EFBIG ? " (RLIMIT_FSIZE)" : "");
        data += n;
        nbytes -= (size_t)n;
    }
    return HVD_OK;
}

hvd_status_t wire_secret_create(const void *data, size_t nbytes, int *fd_p)
{
    int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
    int fd = memfd_create("hvd-secret", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    hvd_status_t status;

    if (fd < 0)
        return error_errno("memfd_create, for the job's secret");
    HVD_TRY_GOTO(write_all(fd, data, nbytes), close_fd);
    if (fcntl(fd, F_ADD_SEALS, seals) < 0) {
        status = error_errno("cannot seal a secret");
        goto close_fd;
    }
    *fd_p = fd;
    return HVD_OK;

close_fd:
    close(fd);
    return status;
}

hvd_status_t wire_secret_read(int fd, void *data, size_t nbytes)
{
    uint8_t *at = data;
    size_t done = 0;

    /* pread: siblings that inherited the same descriptor share its offset */
    while (done < nbytes) {
        ssize_t n = pread(fd, at + done, nbytes - done, (off_t)done);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_errno("cannot read the secret from descriptor %d", fd);
        if (n == 0)
            return error_set(
                HVD_ERR_PROTOCOL,
                "the secret in descriptor %d has %zu bytes instead "
                "of %zu",
                fd, done, nbytes);
        done += (size_t)n;
    }
    return HVD_OK;
}
