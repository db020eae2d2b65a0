/* hvd/status.h - the status that calls of the library return.
 *
 * HVD_OK is 0. A positive value is a condition of the world that the program is
 * expected to handle, usually by returning it from its training function. A
 * negative value is an error. Values <= HVD_USER_STATUS_MAX belong to the
 * program, and pass through the library unchanged.
 *
 * Threads: any thread may call every function here. */
#ifndef HVD_STATUS_H
#define HVD_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define HVD_API        __attribute__((visibility("default")))
#define HVD_MUST_CHECK __attribute__((warn_unused_result))
#else
#define HVD_API
#define HVD_MUST_CHECK
#endif
#define HVD_INLINE static inline HVD_MUST_CHECK

/* name, value, text */
#define HVD_STATUS_TABLE(X)                                       \
    X(HVD_OK, 0, "success")                                       \
    X(HVD_HOSTS_UPDATED, 1, "hosts were added or removed")        \
    X(HVD_PEER_LOST, 2, "a peer was lost")                        \
    X(HVD_REMOVED, 3, "this worker was removed from the job")     \
    X(HVD_ERR_INVALID, -1, "invalid argument")                    \
    X(HVD_ERR_STATE, -2, "not allowed now")                       \
    X(HVD_ERR_NOMEM, -3, "out of memory")                         \
    X(HVD_ERR_SYSTEM, -4, "system call failed")                   \
    X(HVD_ERR_TIMEOUT, -5, "deadline exceeded")                   \
    X(HVD_ERR_MISMATCH, -6, "ranks disagree")                     \
    X(HVD_ERR_LAYOUT, -7, "state layout differs between workers") \
    X(HVD_ERR_PROTOCOL, -8, "malformed or unexpected message")    \
    X(HVD_ERR_UNSUPPORTED, -9, "not supported here")              \
    X(HVD_ERR_DRIVER_LOST, -10, "the driver is gone")             \
    X(HVD_ERR_JOB_FAILED, -11, "the job has failed")              \
    X(HVD_ERR_CORRUPT, -12, "data failed verification")           \
    X(HVD_ERR_CALLBACK, -13, "a user callback failed")

typedef enum hvd_status {
#define HVD_STATUS_ENUM(name, value, text) name = value,
    HVD_STATUS_TABLE(HVD_STATUS_ENUM)
#undef HVD_STATUS_ENUM
        HVD_USER_STATUS_MAX = -1000,
    HVD_STATUS_FORCE_INT = 0x7fffffff
} hvd_status_t;

/* hvd_strerror - the fixed text of a status; never NULL. The text of a
 * program's own value is "user status". */
HVD_API const char *hvd_strerror(hvd_status_t status);

/* hvd_last_error - after a call of this thread that did not return HVD_OK: the
 * sentence about it, with the failure, its place, the peer, errno. After
 * another call it may be anything. Owned by the library, valid until the next
 * hvd_* call of the same thread; "" if there was none. */
HVD_API const char *hvd_last_error(void);

/* HVD_TRY - return the status of `call` from the calling function unless it is
 * HVD_OK. */
#define HVD_TRY(call)                          \
    do {                                       \
        hvd_status_t hvd_try_status_ = (call); \
        if (hvd_try_status_ != HVD_OK)         \
            return hvd_try_status_;            \
    } while (0)

/* HVD_TRY_GOTO - the same for functions that must clean up: wants `hvd_status_t
 * status` in scope. */
#define HVD_TRY_GOTO(call, label) \
    do {                          \
        status = (call);          \
        if (status != HVD_OK)     \
            goto label;           \
    } while (0)

#ifdef __cplusplus
}
#endif
#endif
