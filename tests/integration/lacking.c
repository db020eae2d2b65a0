/* tests/integration/lacking.c - hvd-elastic without memory for the keys of who
 * may connect. Linked so that wire_gate_allow() comes through here.
 *
 * HVD_TEST_LACKS="worker N", or "agent N": the first N calls for a worker, or
 * for an agent, fail. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elastic/wire/socket.h"

bool __real_wire_gate_allow(struct wire_gate *gate, uint64_t agent,
                            uint64_t worker, const uint8_t *token);
bool __wrap_wire_gate_allow(struct wire_gate *gate, uint64_t agent,
                            uint64_t worker, const uint8_t *token);

/* Calls from the driver's main thread alone. */
static unsigned left_of(const char *kind)
{
    const char *lacks = getenv("HVD_TEST_LACKS");
    unsigned n;
    char of[8];

    if (!lacks || sscanf(lacks, "%7s %u", of, &n) != 2 || strcmp(of, kind) != 0)
        return 0;
    return n;
}

bool __wrap_wire_gate_allow(struct wire_gate *gate, uint64_t agent,
                            uint64_t worker, const uint8_t *token)
{
    static unsigned n_calls[2];

    if (n_calls[worker != 0]++ < left_of(worker != 0 ? "worker" : "agent"))
        return false;
    return __real_wire_gate_allow(gate, agent, worker, token);
}
