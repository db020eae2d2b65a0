/* bench/peers/mpi_world.c - see mpi_world.h. MPI's errors are fatal by default,
 * with a message of its own. */

#include "bench/peers/mpi_world.h"
#include "bench/peers/peer.h"
#include <mpi.h>

int world_rank, world_size;

void peer_init(int *argc, char ***argv, int *rank_p, int *size_p)
{
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    *rank_p = world_rank;
    *size_p = world_size;
}

void peer_fini(void)
{
    peer_release();
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
