/* bench/witness.c - see witness.h. The real functions are reached by the names
 * that the GNU C library exports besides, or by the system call itself: looking
 * them up could allocate. */
#include "witness.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static atomic_bool counting;
static atomic_uint_least64_t allocations, frees, maps;

/* A steady state never gets here, so this may take its time. */
static void count(atomic_uint_least64_t *counter)
{
    static const char *const others[] = {"hvd-control", "ZMQbg"};
    char name[16] = "";

    if (!atomic_load(&counting))
        return;
    (void)prctl(PR_GET_NAME, name);
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        if (strncmp(name, others[i], strlen(others[i])) == 0)
            return;
    atomic_fetch_add(counter, 1);
}

/* ---- in front of others -------------------------------------------------- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

int __sanitizer_install_malloc_and_free_hooks(
    void (*malloc_hook)(const volatile void *, size_t),
    void (*free_hook)(const volatile void *));

const bool witness_counts_maps = false;

static void on_malloc(const volatile void *ptr, size_t nbytes)
{
    count(&allocations);
}

static void on_free(const volatile void *ptr)
{
    if (ptr != NULL)
        count(&frees);
}

static void install(void)
{
    static bool done;

    if (!done)
        (void)__sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
    done = true;
}

#else

const bool witness_counts_maps = true;

#define IN_FRONT __attribute__((visibility("default")))

void *__libc_malloc(size_t nbytes);
void *__libc_calloc(size_t n, size_t nbytes);
void *__libc_realloc(void *ptr, size_t nbytes);
void *__libc_memalign(size_t align, size_t nbytes);
void __libc_free(void *ptr);

/* By these names the others do not clash with the headers', whatever they make
 * of mmap where files are large. */
void *front_malloc(size_t nbytes) __asm__("malloc");
void *front_calloc(size_t n, size_t nbytes) __asm__("calloc");
void *front_realloc(void *ptr, size_t nbytes) __asm__("realloc");
void *front_aligned(size_t align, size_t nbytes) __asm__("aligned_alloc");
void *front_memalign(size_t align, size_t nbytes) __asm__("memalign");
int front_posix(void **ptr_p, size_t align,
                size_t nbytes) __asm__("posix_memalign");
void front_free(void *ptr) __asm__("free");
void *front_mmap(void *at, size_t nbytes, int prot, int flags, int fd,
                 off_t offset) __asm__("mmap");
void *front_mmap64(void *at, size_t nbytes, int prot, int flags, int fd,
                   off_t offset) __asm__("mmap64");
int front_munmap(void *at, size_t nbytes) __asm__("munmap");
void *front_mremap(void *at, size_t nbytes, size_t wanted, int flags,
                   ...) __asm__("mremap");
int front_madvise(void *at, size_t nbytes, int advice) __asm__("madvise");
int front_fallocate(int fd, int mode, off_t at,
                    off_t nbytes) __asm__("fallocate");
int front_fallocate64(int fd, int mode, off_t at,
                      off_t nbytes) __asm__("fallocate64");

IN_FRONT void *front_malloc(size_t nbytes)
{
    count(&allocations);
    return __libc_malloc(nbytes);
}

IN_FRONT void *front_calloc(size_t n, size_t nbytes)
{
    count(&allocations);
    return __libc_calloc(n, nbytes);
}

IN_FRONT void *front_realloc(void *ptr, size_t nbytes)
{
    count(&allocations);
    return __libc_realloc(ptr, nbytes);
}

IN_FRONT void *front_aligned(size_t align, size_t nbytes)
{
    count(&allocations);
    return __libc_memalign(align, nbytes);
}

IN_FRONT void *front_memalign(size_t align, size_t nbytes)
{
    count(&allocations);
    return __libc_memalign(align, nbytes);
}

IN_FRONT int front_posix(void **ptr_p, size_t align, size_t nbytes)
{
    void *ptr;

    count(&allocations);
    ptr = __libc_memalign(align, nbytes);
    if (ptr == NULL)
        return ENOMEM;
    *ptr_p = ptr;
    return 0;
}

IN_FRONT void front_free(void *ptr)
{
    if (ptr != NULL)
        count(&frees);
    __libc_free(ptr);
}

static void *map(void *at, size_t nbytes, int prot, int flags, int fd,
                 off_t offset)
{
    count(&maps);
    return (void *)syscall(SYS_mmap, at, nbytes, prot, flags, fd, offset);
}

IN_FRONT void *front_mmap(void *at, size_t nbytes, int prot, int flags, int fd,
                          off_t offset)
{
    return map(at, nbytes, prot, flags, fd, offset);
}

IN_FRONT void *front_mmap64(void *at, size_t nbytes, int prot, int flags,
                            int fd, off_t offset)
{
    return map(at, nbytes, prot, flags, fd, offset);
}

IN_FRONT int front_munmap(void *at, size_t nbytes)
{
    count(&maps);
    return (int)syscall(SYS_munmap, at, nbytes);
}

IN_FRONT void *front_mremap(void *at, size_t nbytes, size_t wanted, int flags,
                            ...)
{
    void *target;
    va_list ap;

    va_start(ap, flags);
    target = va_arg(ap, void *);
    va_end(ap);
    count(&maps);
    return (void *)syscall(SYS_mremap, at, nbytes, wanted, flags, target);
}

IN_FRONT int front_madvise(void *at, size_t nbytes, int advice)
{
    count(&maps);
    return (int)syscall(SYS_madvise, at, nbytes, advice);
}

static int allocate_file(int fd, int mode, off_t at, off_t nbytes)
{
    count(&maps);
    return (int)syscall(SYS_fallocate, fd, mode, at, nbytes);
}

IN_FRONT int front_fallocate(int fd, int mode, off_t at, off_t nbytes)
{
    return allocate_file(fd, mode, at, nbytes);
}

IN_FRONT int front_fallocate64(int fd, int mode, off_t at, off_t nbytes)
{
    return allocate_file(fd, mode, at, nbytes);
}

static void install(void)
{
}

#endif

/* ---- the counts ---------------------------------------------------------- */

void witness_begin(void)
{
    install();
    atomic_store(&allocations, 0);
    atomic_store(&frees, 0);
    atomic_store(&maps, 0);
    atomic_store(&counting, true);
}

struct witness witness_end(void)
{
    atomic_store(&counting, false);
    return (struct witness){atomic_load(&allocations), atomic_load(&frees),
                            atomic_load(&maps)};
}
