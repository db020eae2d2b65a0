/* hvd/hvd.h - the whole public interface of libhvd. */
#ifndef HVD_HVD_H
#define HVD_HVD_H

#include <hvd/collectives.h>
#include <hvd/comm.h>
#include <hvd/device.h>
#include <hvd/elastic.h>
#include <hvd/sampler.h>
#include <hvd/state.h>
#include <hvd/status.h>
#include <hvd/version.h>
#include <hvd/world.h>

#endif
