/* bench/peers/mpi_world.h - what every contestant that MPI starts has in
 * common, MPI's collectives or none of them: of peer.h, peer_init, peer_fini,
 * peer_barrier, peer_max and peer_sum. */
#ifndef BENCH_MPI_WORLD_H
#define BENCH_MPI_WORLD_H

extern int world_rank, world_size; /* since peer_init */

#endif
