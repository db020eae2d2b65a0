/* tests/integration/storm_block.c - blocks of all kinds of memory that a
 * program may hand to the library, with guards around, and the graves of those
 * that are over. See storm.h.
 *
 * What is freed at once may be unmapped or be somebody else's: a late write
 * would be a crash at best. So blocks stay for a while, full of a pattern.
 *
 * Memory: the graves hold GRAVES blocks of at most GRAVE_NBYTES_MAX each. */
#include "storm.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    GUARD_NBYTES = 64,
    GUARD = 0xa5,
    GRAVE = 0x5c,
    GRAVES = 48,
    GRAVE_NBYTES_MAX = 1 << 20
};

static struct block graves[GRAVES];
static size_t n_buried;

const char *place_name(enum place place)
{
    static const char *const names[] = {"heap", "hvd_alloc", "private file",
                                        "shared file"};

    return names[place];
}

static bool is_file(const struct block *b)
{
    return b->place == PLACE_PRIVATE_FILE || b->place == PLACE_SHARED_FILE;
}

/* ---- taking and freeing -------------------------------------------------- */

/* A memfd: with a name it would be left behind by who is killed. */
static hvd_status_t map_file(size_t length, int flags, unsigned char **base_p)
{
    int fd = memfd_create("storm", MFD_CLOEXEC);
    hvd_status_t status = HVD_ERR_SYSTEM;
    void *ptr;

    if (fd < 0)
        return status;
    if (ftruncate(fd, (off_t)length) != 0)
        goto close;
    ptr = mmap(NULL, length, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (ptr == MAP_FAILED)
        goto close;
    *base_p = ptr;
    status = HVD_OK;

close:
    close(fd);
    return status;
}

static hvd_status_t obtain(struct block *b)
{
    void *ptr = NULL;

    switch (b->place) {
    case PLACE_PRIVATE_FILE:
        return map_file(b->length, MAP_PRIVATE, &b->base);
    case PLACE_SHARED_FILE:
        return map_file(b->length, MAP_SHARED, &b->base);
    case PLACE_ARENA:
        ptr = hvd_alloc(b->length);
        if (!ptr)
            return HVD_ERR_NOMEM;
        break;
    default:
        ptr = malloc(b->length);
    }
    b->base = ptr;
    return ptr == NULL ? HVD_ERR_NOMEM : HVD_OK;
}

static void release(struct block *b)
{
    if (is_file(b))
        munmap(b->base, b->length);
    else if (b->place == PLACE_ARENA)
        hvd_free(b->base);
    else
        free(b->base);
    b->base = NULL;
}

hvd_status_t block_take(struct block *b, size_t nbytes, uint64_t step,
                        struct chance *own)
{
    size_t odd = one_in(own, 2) ? 1 + draw(own, GUARD_NBYTES - 1) : 0;
    struct block taken = {.place = (enum place)draw(own, N_PLACES),
                          .length = nbytes + 3 * GUARD_NBYTES,
                          .nbytes = nbytes,
                          .step = step};

    HVD_TRY(obtain(&taken));
    taken.ptr = taken.base + GUARD_NBYTES + odd;
    memset(taken.base, GUARD, taken.length);
    *b = taken;
    return HVD_OK;
}

void block_freeze(const struct block *b)
{
    if (is_file(b) && mprotect(b->base, b->length, PROT_READ) != 0)
        perror("mprotect");
}

/* ---- looking ------------------------------------------------------------- */

/* The first byte that is another; n: none. */
static size_t other_byte(const unsigned char *p, size_t n, unsigned char byte)
{
    size_t i = 0;

    if (n > 0 && p[0] == byte && memcmp(p, p + 1, n - 1) == 0)
        return n;
    while (i < n && p[i] == byte)
        i++;
    return i;
}

bool block_guards_stand(const struct block *b)
{
    size_t before = (size_t)(b->ptr - b->base);
    size_t after = b->length - before - b->nbytes;

    return b->base == NULL ||
           (other_byte(b->base, before, GUARD) == before &&
            other_byte(b->ptr + b->nbytes, after, GUARD) == after);
}

static void see_to(const struct block *b)
{
    size_t at;

    if (b->base == NULL)
        return;
    at = other_byte(b->base, b->length, GRAVE);
    if (at == b->length)
        return;
    fprintf(stderr,
            "WRONG: memory that was free is written: %s, %zu bytes, of step "
            "%" PRIu64 ", rank %d now, byte %zu: got %02x, expected %02x\n",
            place_name(b->place), b->length, b->step, hvd_rank(), at,
            b->base[at], GRAVE);
    abort();
}

void blocks_see_to_graves(void)
{
    for (size_t i = 0; i < GRAVES; i++)
        see_to(&graves[i]);
}

void block_bury(struct block *b)
{
    struct block *grave = &graves[n_buried % GRAVES];

    if (b->base == NULL)
        return;
    if (b->length > GRAVE_NBYTES_MAX) {
        release(b);
        return;
    }
    if (is_file(b) && mprotect(b->base, b->length, PROT_READ | PROT_WRITE))
        perror("mprotect");
    memset(b->base, GRAVE, b->length);
    see_to(grave);
    if (grave->base != NULL)
        release(grave);
    *grave = *b;
    b->base = NULL;
    n_buried++;
}
