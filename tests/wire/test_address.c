/* tests/wire/test_address.c - what is read out of an endpoint. */
#include "elastic/wire/address.h"
#include "support.h"

static const struct {
    const char *endpoint;
    bool loopback;
} endpoints[] = {
    {"tcp://127.0.0.1:4711", true},   {"tcp://127.1.2.3:1", true},
    {"tcp://[::1]:4711", true},       {"tcp://10.0.0.1:4711", false},
    {"tcp://128.127.0.1:1", false},   {"tcp://[fd00::1]:4711", false},
    {"tcp://[::1:2]:4711", false},    {"127.0.0.1:4711", false},
    {"tcp://12.127.0.1:4711", false}, {"", false},
};

START_TEST(endpoint_is_loopback_or_not)
{
    ck_assert_int_eq(address_endpoint_is_loopback(endpoints[_i].endpoint),
                     endpoints[_i].loopback);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("address");
    TCase *tc = tcase_create("address");

    tcase_add_loop_test(tc, endpoint_is_loopback_or_not, 0,
                        sizeof(endpoints) / sizeof(endpoints[0]));
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
