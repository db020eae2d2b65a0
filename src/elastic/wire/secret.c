/* elastic/wire/secret.c - the secret of a child, and handing it over through a
 * sealed memfd, so that it is in no argv, environment or file. See socket.h.
 *
 * Threads: any. Memory: none. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mac.h"
#include "elastic/wire/socket.h"

_Static_assert((int)WIRE_TOKEN_NBYTES == (int)MAC_KEY_NBYTES &&
                   (int)WIRE_TOKEN_NBYTES == (int)MAC_NBYTES,
               "a token is made by, and is, a key");
_Static_assert((int)WIRE_KEY_NBYTES == (int)WIRE_TOKEN_NBYTES,
               "a key is made as a token is");

void wire_token_derive(const uint8_t *secret, enum wire_token_kind kind,
                       uint64_t id, uint8_t *token)
{
    uint8_t name[1 + sizeof(id)] = {(uint8_t)kind};

    for (size_t i = 0; i < sizeof(id); i++)
        name[1 + i] = (uint8_t)(id >> 8 * i);
    mac_compute(secret, name, sizeof(name), token);
}

void wire_probe_answer(const uint8_t *token, const uint8_t *nonce,
                       uint8_t *answer)
{
    uint8_t key[WIRE_KEY_NBYTES];

    wire_token_derive(token, WIRE_TOKEN_PROBE, 0, key);
    mac_compute(key, nonce, WIRE_TOKEN_NBYTES, answer);
    explicit_bzero(key, sizeof(key));
}

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
        return error_errno("memfd_create, for a secret");
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
