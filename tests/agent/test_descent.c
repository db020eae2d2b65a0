/* tests/agent/test_descent.c - which process may be which worker. */
#include "elastic/agent/descent.h"
#include "support.h"

enum { AGENT = 10, OWN = 20, OTHER = 30, SCRIPT = 40, LINE_MAX = 8 };

START_TEST(descent_decides_by_who_started_whom)
{
    static const pid_t ours[] = {OWN, OTHER, SCRIPT};
    static const struct {
        pid_t line[LINE_MAX]; /* ends with 0 */
        pid_t own;
        bool same_user;
        pid_t taken;
        enum claim_verdict verdict;
    } table[] = {
        /* its own process, behind one wrapper, and behind more */
        {{OWN, AGENT, 1}, OWN, true, 0, CLAIM_GRANTED},
        {{50, OWN, AGENT, 1}, OWN, true, 0, CLAIM_GRANTED},
        {{52, 51, 50, OWN, AGENT, 5, 1}, OWN, true, 0, CLAIM_GRANTED},
        /* an agent that is process 1 of a container */
        {{50, OWN, AGENT}, OWN, true, 0, CLAIM_GRANTED},
        /* a program of the worker's, a second one behind the wrapper */
        {{50, OWN, AGENT, 1}, OWN, true, 60, CLAIM_TAKEN},
        {{OWN, AGENT, 1}, OWN, true, 60, CLAIM_TAKEN},
        /* its hvd_init failed, and is called again */
        {{50, OWN, AGENT, 1}, OWN, true, 50, CLAIM_GRANTED},
        /* a daemon: its parent has ended, the agent is its parent now */
        {{50, AGENT, 1}, OWN, true, 0, CLAIM_GRANTED},
        {{51, 50, AGENT, 1}, OWN, true, 60, CLAIM_TAKEN},
        /* of another worker, of a script */
        {{50, OTHER, AGENT, 1}, OWN, true, 0, CLAIM_STRANGER},
        {{OTHER, AGENT, 1}, OWN, true, 60, CLAIM_STRANGER},
        {{50, SCRIPT, AGENT, 1}, OWN, true, 0, CLAIM_STRANGER},
        /* of nobody here: a shell's, an agent's parent, one that has ended */
        {{50, 5, 1}, OWN, true, 0, CLAIM_STRANGER},
        {{5, 1}, OWN, true, 0, CLAIM_STRANGER},
        {{AGENT, 5, 1}, OWN, true, 0, CLAIM_STRANGER},
        {{50}, OWN, true, 0, CLAIM_STRANGER},
        {{0}, OWN, true, 0, CLAIM_STRANGER},
        /* the pid is another's by now */
        {{50, OWN, AGENT, 1}, OWN, false, 0, CLAIM_STRANGER},
        /* no such worker, or it has ended */
        {{50, AGENT, 1}, 0, true, 0, CLAIM_STRANGER},
        {{0}, 0, true, 0, CLAIM_STRANGER}};

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct descent d = {.line = table[i].line,
                            .agent = AGENT,
                            .own = table[i].own,
                            .ours = ours,
                            .n_ours = sizeof(ours) / sizeof(ours[0]),
                            .same_user = table[i].same_user,
                            .taken = table[i].taken};

        while (table[i].line[d.n] != 0)
            d.n++;
        ck_assert_msg(descent_judge(&d) == table[i].verdict, "row %zu", i);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("descent");
    TCase *tcase = tcase_create("descent");

    tcase_add_test(tcase, descent_decides_by_who_started_whom);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
