/* charlm_kernels.cpp - the kernels of examples/charlm_cuda for the fake driver.
 * See kernels.h. */
#include "host.hpp"

#include "kernels.cu"

extern "C" {
extern __attribute__((visibility("default")))
const struct fake_kernel fake_kernels[];
const struct fake_kernel fake_kernels[] = {HOST_KERNEL(embed),
                                           HOST_KERNEL(dense_forward),
                                           HOST_KERNEL(score_norms),
                                           HOST_KERNEL(total_loss),
                                           HOST_KERNEL(score_gradients),
                                           HOST_KERNEL(input_gradients),
                                           HOST_KERNEL(weight_gradients),
                                           HOST_KERNEL(embedding_gradients),
                                           HOST_KERNEL(adam_step),
                                           {}};
}
