/* tests/wire/test_secret.c - secrets in sealed memory. */
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mac.h"
#include "elastic/wire/seal.h"
#include "elastic/wire/socket.h"
#include "support.h"

static const char secret[] = "thirty-two bytes, more or less..";

START_TEST(secret_every_reader_gets_all_of_it)
{
    char got[sizeof(secret)];
    int fd;

    ck_assert_int_eq(wire_secret_create(secret, sizeof(secret), &fd), HVD_OK);
    for (int i = 0; i < 3; i++) { /* no reader moves the other's offset */
        memset(got, 0, sizeof(got));
        ck_assert_int_eq(wire_secret_read(fd, got, sizeof(got)), HVD_OK);
        ck_assert_mem_eq(got, secret, sizeof(secret));
    }
    close(fd);
}
END_TEST

START_TEST(secret_cannot_be_changed)
{
    int fd;

    ck_assert_int_eq(wire_secret_create(secret, sizeof(secret), &fd), HVD_OK);
    ck_assert_int_lt(pwrite(fd, "x", 1, 0), 0);
    ck_assert_int_lt(ftruncate(fd, 0), 0);
    ck_assert_int_ne(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
    close(fd);
}
END_TEST

START_TEST(secret_too_short_or_closed_is_an_error)
{
    char got[sizeof(secret) + 1];
    int fd;

    ck_assert_int_eq(wire_secret_create(secret, sizeof(secret), &fd), HVD_OK);
    ck_assert_int_eq(wire_secret_read(fd, got, sizeof(got)), HVD_ERR_PROTOCOL);
    close(fd);
    ck_assert_int_eq(wire_secret_read(-1, got, sizeof(got)), HVD_ERR_SYSTEM);
    ck_assert_ptr_nonnull(strstr(error_text(), "descriptor -1"));
}
END_TEST

START_TEST(token_of_each_child_is_its_own)
{
    static const struct {
        enum wire_token_kind kind;
        uint64_t id;
    } children[] = {{WIRE_TOKEN_AGENT, 1},
                    {WIRE_TOKEN_AGENT, 2},
                    {WIRE_TOKEN_WORKER, 1},
                    {WIRE_TOKEN_JOB, 1},
                    {WIRE_TOKEN_AGENT, 256}};
    enum { N = 5 };
    uint8_t key[WIRE_TOKEN_NBYTES] = {7}, other[WIRE_TOKEN_NBYTES] = {8};
    uint8_t tokens[N + 1][WIRE_TOKEN_NBYTES], again[WIRE_TOKEN_NBYTES];

    ck_assert_int_eq(mac_init(), HVD_OK);
    for (size_t i = 0; i < N; i++)
        wire_token_derive(key, children[i].kind, children[i].id, tokens[i]);
    wire_token_derive(other, WIRE_TOKEN_AGENT, 1, tokens[N]);
    for (size_t i = 0; i <= N; i++)
        for (size_t j = 0; j < i; j++)
            ck_assert_mem_ne(tokens[i], tokens[j], sizeof(tokens[i]));
    wire_token_derive(key, WIRE_TOKEN_AGENT, 1, again);
    ck_assert_mem_eq(again, tokens[0], sizeof(again));
}
END_TEST

/* What is sealed, or what stands for its second frame, or the token: nothing of
 * it may be another. */
START_TEST(seal_fits_what_was_sealed_alone)
{
    enum { NBYTES = 100 };
    uint8_t token[MAC_KEY_NBYTES] = {7}, digest[SEAL_NBYTES];
    uint8_t sealed[NBYTES + SEAL_NBYTES] = "words", words[sizeof(sealed)];
    const uint8_t *with = _i ? digest : NULL;

    ck_assert_int_eq(mac_init(), HVD_OK);
    seal_digest("rest", 4, digest);
    seal_put(token, sealed, NBYTES, with);
    for (size_t i = 0; i < sizeof(sealed); i++) {
        memcpy(words, sealed, sizeof(words));
        words[i] ^= 1;
        ck_assert(!seal_fits(token, words, NBYTES, with));
    }
    memcpy(words, sealed, sizeof(words));
    ck_assert(seal_fits(token, words, NBYTES, with));
    ck_assert_mem_eq(words, sealed, sizeof(words));
    ck_assert(!seal_fits(token, words, NBYTES, _i ? NULL : digest));
    memcpy(words, sealed, sizeof(words));
    digest[0] ^= 1;
    token[0] ^= !_i;
    ck_assert(!seal_fits(token, words, NBYTES, with));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("secret");
    TCase *tcase = tcase_create("secret");

    tcase_add_test(tcase, secret_every_reader_gets_all_of_it);
    tcase_add_test(tcase, secret_cannot_be_changed);
    tcase_add_test(tcase, secret_too_short_or_closed_is_an_error);
    tcase_add_test(tcase, token_of_each_child_is_its_own);
    tcase_add_loop_test(tcase, seal_fits_what_was_sealed_alone, 0, 2);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
