/* place.c - see place.h. */
#include "place.h"

#include <stdlib.h>
#include <string.h>

#include "fake.h"

static uint64_t mix(uint64_t hash, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ (uint8_t)bytes[i]) * 0x100000001b3u;
    return hash;
}

uint64_t place_of_this(void)
{
    const char *host = getenv("NCCL_HOSTID");
    CUdevice device = 0;
    CUuuid uuid;

    (void)cuCtxGetDevice(&device);
    (void)cuDeviceGetUuid_v2(&uuid, device);
    return mix(mix(0xcbf29ce484222325u, uuid.bytes, sizeof(uuid.bytes)),
               host != NULL ? host : "", host != NULL ? strlen(host) : 0);
}

bool places_differ(const uint64_t *places, int n)
{
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++)
            if (places[i] == places[k])
                return false;
    return true;
}
