// bench/peers/gloo.cc - Gloo as a contestant; see peer.h.
//
// It has no launcher: GLOO_RANK, GLOO_SIZE and GLOO_STORE (an empty directory
// that all ranks see) say who this is, GLOO_ADDRESS where (else loopback). It has no choice of algorithms either,
// so each it has is a way. They come in two kinds of interface, and a process
// uses one of them, the older with GLOO_OLD set: after the older ones a large
// ring of the newer hangs. The reduce-scatter (older only) works in place and
// leaves the block at the start of the operand.
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <iostream>
#include <memory>
#include <vector>

#include <gloo/allgather.h>
#include <gloo/allgather_ring.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_bcube.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/broadcast_one_to_all.h>
#include <gloo/math.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include "bench/peers/peer.h"

namespace
{
using floats = std::vector<float *>;
using algorithm = std::unique_ptr<gloo::Algorithm>;

std::shared_ptr<gloo::rendezvous::Context> context;
std::function<void()> call, settle;
algorithm current; // what call runs, if it is an object

// Of one operation. A rank that is ahead may be in the next one already, and
// Gloo asks for different tags wherever two can overlap.
uint32_t next_tag()
{
    static uint32_t tag;

    return tag++;
}

template <typename Function> void guarded(Function function)
{
    try {
        function();
    } catch (const std::exception &e) {
        std::cerr << "peer: gloo: " << e.what() << std::endl;
        std::_Exit(1);
    }
}

template <typename T>
void allreduce(T *buffer, size_t count,
               void (*combine)(void *, const void *, const void *, size_t),
               gloo::AllreduceOptions::Algorithm how)
{
    gloo::AllreduceOptions options(context);

    options.setTag(next_tag());
    options.setAlgorithm(how);
    options.setOutput(buffer, count);
    options.setReduceFunction(combine);
    gloo::allreduce(options);
}

void run_object(algorithm object)
{
    current = std::move(object);
    call = [] { current->run(); };
}

struct way {
    const char *name;
    void (*prepare)(const bench_case &, float *send, float *recv);
};

using reduce_options = gloo::AllreduceOptions::Algorithm;

const way allreduces[] = {
    {"ring",
     [](const bench_case &c, float *, float *recv) {
         call = [recv, n = c.count] {
             allreduce<float>(recv, n, &gloo::sum<float>, reduce_options::RING);
         };
     }},
    {"bcube",
     [](const bench_case &c, float *, float *recv) {
         call = [recv, n = c.count] {
             allreduce<float>(recv, n, &gloo::sum<float>,
                              reduce_options::BCUBE);
         };
     }},
};

const way old_allreduces[] = {
    {"halving-doubling",
     [](const bench_case &c, float *, float *recv) {
         run_object(algorithm(new gloo::AllreduceHalvingDoubling<float>(
             context, floats{recv}, static_cast<int>(c.count))));
     }},
    {"ring-chunked",
     [](const bench_case &c, float *, float *recv) {
         run_object(algorithm(new gloo::AllreduceRingChunked<float>(
             context, floats{recv}, static_cast<int>(c.count))));
     }},
    {"old-bcube",
     [](const bench_case &c, float *, float *recv) {
         run_object(algorithm(new gloo::AllreduceBcube<float>(
             context, floats{recv}, static_cast<int>(c.count))));
     }},
};

const way broadcasts[] = {
    {"tree",
     [](const bench_case &c, float *, float *recv) {
         call = [recv, n = c.count, root = c.root] {
             gloo::BroadcastOptions options(context);

             options.setTag(next_tag());
             options.setOutput(recv, n);
             options.setRoot(root);
             gloo::broadcast(options);
         };
     }},
};

const way old_broadcasts[] = {
    {"one-to-all",
     [](const bench_case &c, float *, float *recv) {
         run_object(algorithm(new gloo::BroadcastOneToAll<float>(
             context, floats{recv}, c.count, c.root)));
     }},
};

const way allgathers[] = {
    {"ring",
     [](const bench_case &c, float *send, float *recv) {
         call = [send, recv, n = c.count, size = c.size] {
             gloo::AllgatherOptions options(context);

             options.setTag(next_tag());
             options.setInput(send, n);
             options.setOutput(recv, n * static_cast<size_t>(size));
             gloo::allgather(options);
         };
     }},
};

const way old_allgathers[] = {
    {"old-ring",
     [](const bench_case &c, float *send, float *recv) {
         run_object(algorithm(new gloo::AllgatherRing<float>(
             context, std::vector<const float *>{send}, recv,
             static_cast<int>(c.count))));
     }},
};

const way old_reduce_scatters[] = {
    {"halving-doubling",
     [](const bench_case &c, float *send, float *recv) {
         std::vector<int> counts(static_cast<size_t>(c.size),
                                 static_cast<int>(c.count));

         run_object(algorithm(new gloo::ReduceScatterHalvingDoubling<float>(
             context, floats{send}, static_cast<int>(c.count) * c.size,
             counts)));
         settle = [send, recv, nbytes = c.count * c.each] {
             std::memcpy(recv, send, nbytes);
         };
     }},
};

const way alltoalls[] = {
    {"pairwise",
     [](const bench_case &c, float *send, float *recv) {
         call = [send, recv, n = c.count * static_cast<size_t>(c.size)] {
             gloo::AlltoallOptions options(context);

             options.setTag(next_tag());
             options.setInput(send, n);
             options.setOutput(recv, n);
             gloo::alltoall(options);
         };
     }},
};

struct ways {
    const way *first;
    int n;
};

template <int n> ways all(const way (&list)[n])
{
    return {list, n};
}

ways ways_of(case_kind kind)
{
    static const bool old = std::getenv("GLOO_OLD") != nullptr;

    switch (kind) {
    case CASE_ALLREDUCE:
        return old ? all(old_allreduces) : all(allreduces);
    case CASE_BROADCAST:
        return old ? all(old_broadcasts) : all(broadcasts);
    case CASE_ALLGATHER:
        return old ? all(old_allgathers) : all(allgathers);
    case CASE_REDUCE_SCATTER:
        return old ? all(old_reduce_scatters) : ways{nullptr, 0};
    case CASE_ALLTOALL:
        return old ? ways{nullptr, 0} : all(alltoalls);
    default:
        return {nullptr, 0};
    }
}

const char *from_environment(const char *name)
{
    const char *value = std::getenv(name);

    if (!value) {
        std::cerr << "peer: " << name << " is not set" << std::endl;
        std::_Exit(2);
    }
    return value;
}
} // namespace

void peer_init(int *, char ***, int *rank_p, int *size_p)
{
    *rank_p = std::atoi(from_environment("GLOO_RANK"));
    *size_p = std::atoi(from_environment("GLOO_SIZE"));
    guarded([=] {
        const char *address = std::getenv("GLOO_ADDRESS");
        auto device = gloo::transport::tcp::CreateDevice(address ? address
                                                                 : "127.0.0.1");
        gloo::rendezvous::FileStore store(from_environment("GLOO_STORE"));

        context = std::make_shared<gloo::rendezvous::Context>(*rank_p, *size_p);
        context->connectFullMesh(store, device);
    });
}

void peer_fini()
{
    peer_barrier();
    current.reset();
    call = nullptr;
    context.reset();
}

void peer_barrier()
{
    guarded([] {
        gloo::BarrierOptions options(context);

        options.setTag(next_tag());
        gloo::barrier(options);
    });
}

void peer_max(int64_t *ns, size_t n)
{
    guarded([=] {
        allreduce<int64_t>(ns, n, &gloo::max<int64_t>, reduce_options::RING);
    });
}

int64_t peer_sum(int64_t value)
{
    guarded([&] {
        allreduce<int64_t>(&value, 1, &gloo::sum<int64_t>,
                           reduce_options::RING);
    });
    return value;
}

int peer_ways(case_kind kind)
{
    return ways_of(kind).n;
}

const char *peer_way_name(case_kind kind, int way)
{
    return ways_of(kind).first[way].name;
}

bool peer_way_suits(const bench_case *, int)
{
    return true;
}

void *peer_allocate(size_t)
{
    return nullptr;
}

void peer_release()
{
}

void peer_prepare(const bench_case *c, int way, void *send, void *recv)
{
    settle = [] {};
    guarded([=] {
        peer_barrier(); // nobody is still in the algorithm that goes now
        ways_of(c->kind).first[way].prepare(*c, static_cast<float *>(send),
                                            static_cast<float *>(recv));
    });
}

void peer_call()
{
    guarded([] { call(); });
}

void peer_settle()
{
    settle();
}
