/* bench/peers/mpi.c - any MPI as a contestant; see peer.h. Its errors are
 * fatal by default, with a message of its own. */
#include <mpi.h>

#include "bench/peers/peer.h"

static struct bench_case now; /* of the last peer_prepare */
static void *now_send, *now_recv;

void peer_init(int *argc, char ***argv, int *rank_p, int *size_p)
{
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, rank_p);
    MPI_Comm_size(MPI_COMM_WORLD, size_p);
}

void peer_fini(void)
{
    MPI_Finalize();
}

void peer_barrier(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
}

void peer_max(int64_t *ns, size_t n)
{
    MPI_Allreduce(MPI_IN_PLACE, ns, (int)n, MPI_INT64_T, MPI_MAX,
                  MPI_COMM_WORLD);
}

int64_t peer_sum(int64_t value)
{
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT64_T, MPI_SUM,
                  MPI_COMM_WORLD);
    return value;
}

int peer_ways(enum case_kind kind)
{
    return 1;
}

const char *peer_way_name(enum case_kind kind, int way)
{
    return "";
}

void peer_prepare(const struct bench_case *c, int way, void *send, void *recv)
{
    now = *c;
    now_send = send;
    now_recv = recv;
}

void peer_call(void)
{
    int n = (int)now.count;

    switch (now.kind) {
    case CASE_ALLREDUCE:
        MPI_Allreduce(MPI_IN_PLACE, now_recv, n, MPI_FLOAT, MPI_SUM,
                      MPI_COMM_WORLD);
        break;
    case CASE_BROADCAST:
        MPI_Bcast(now_recv, n, MPI_FLOAT, now.root, MPI_COMM_WORLD);
        break;
    case CASE_ALLGATHER:
        MPI_Allgather(now_send, n, MPI_FLOAT, now_recv, n, MPI_FLOAT,
                      MPI_COMM_WORLD);
        break;
    case CASE_REDUCE_SCATTER:
        MPI_Reduce_scatter_block(now_send, now_recv, n, MPI_FLOAT, MPI_SUM,
                                 MPI_COMM_WORLD);
        break;
    case CASE_ALLTOALL:
        MPI_Alltoall(now_send, n, MPI_FLOAT, now_recv, n, MPI_FLOAT,
                     MPI_COMM_WORLD);
        break;
    default:
        MPI_Barrier(MPI_COMM_WORLD);
        break;
    }
}

void peer_settle(void)
{
}
