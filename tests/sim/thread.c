/* thread.c - the application's thread of each virtual worker: a stack of its
 * own, on which the product's run loop and boundary run unchanged
 * (src/elastic/worker/run.c, boundary.c, membership.c, collective.c), and
 * which gives way where the product's thread sleeps. Only one runs at a time,
 * and only the loop of sim.c lets one run.
 *
 * Memory: stacks are kept for later runs. */
#undef _FORTIFY_SOURCE /* its longjmp() allows no other stack */
#include <setjmp.h>
#include <stdio.h>
#include <ucontext.h>

#include "app.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
enum { STACK_NBYTES = 512 << 10 };
#define FIBER_LEAVE(save_p, stack, nbytes) \
    __sanitizer_start_switch_fiber(save_p, stack, nbytes)
#define FIBER_ENTER(saved) __sanitizer_finish_switch_fiber(saved, NULL, NULL)
#define FIBER_BEGIN(s)                                      \
    __sanitizer_finish_switch_fiber(NULL, &(s)->loop_stack, \
                                    &(s)->loop_stack_nbytes)
#else
enum { STACK_NBYTES = 64 << 10 };
#define FIBER_LEAVE(save_p, stack, nbytes) ((void)(save_p))
#define FIBER_ENTER(saved)                 ((void)(saved))
#define FIBER_BEGIN(s)                     ((void)(s))
#endif

struct sim_thread {
    ucontext_t context;      /* where it begins */
    jmp_buf self, loop;      /* where it sleeps; and who lets it run */
    struct sim_thread *next; /* free ones */
    struct sim *sim;
    struct sim_worker *worker;
    void *fake, *loop_fake; /* what the sanitizer keeps for a stack */
    bool begun, over;       /* over: it will not run again */
    struct run_kept kept;   /* while others run */
    char stack[STACK_NBYTES] __attribute__((aligned(64)));
};

static struct sim_thread *free_threads;

/* The process whose libhvd runs: process_self of what is compiled for us. */
struct process *sim_process;

static struct sim_thread *take(void)
{
    struct sim_thread *t = free_threads;

    if (t)
        free_threads = t->next;
    else
        t = malloc(sizeof(*t));
    if (!t)
        abort();
    return t;
}

static void give(struct sim_thread *t)
{
    t->next = free_threads;
    free_threads = t;
}

/* makecontext() hands over integers. */
static void begin(unsigned high, unsigned low)
{
    uintptr_t address = (uintptr_t)high << 32 | low;
    struct sim_thread *t = (struct sim_thread *)address;

    FIBER_BEGIN(t->sim);
    train_main(t->sim, t->worker);
    thread_die(t->sim);
}

/* In a frame of its own: getcontext() might return twice. */
__attribute__((noinline)) static void prepare(struct sim_thread *t)
{
    uintptr_t address = (uintptr_t)t;

    getcontext(&t->context);
    t->context.uc_stack.ss_sp = t->stack;
    t->context.uc_stack.ss_size = sizeof(t->stack);
    t->context.uc_link = NULL;
    makecontext(&t->context, (void (*)(void))begin, 2,
                (unsigned)(address >> 32), (unsigned)address);
}

void thread_begin(struct sim *s, struct sim_worker *w)
{
    struct sim_thread *t = take();

    t->sim = s;
    t->worker = w;
    t->begun = t->over = false;
    t->fake = t->loop_fake = NULL;
    t->kept = (struct run_kept){.text = ""};
    prepare(t);
    w->thread = t;
    thread_run(s, w);
}

/* setcontext() costs system calls: for the first time only. */
__attribute__((noreturn)) static void go(struct sim_thread *t)
{
    if (t->begun)
        _longjmp(t->self, 1);
    t->begun = true;
    setcontext(&t->context);
    abort();
}

/* Each in a frame of its own, which longjmp() leaves alone. */
__attribute__((noinline)) static void let_run(struct sim_thread *t)
{
    if (_setjmp(t->loop) == 0)
        go(t);
}

__attribute__((noinline)) static void give_way(struct sim_thread *t)
{
    if (_setjmp(t->self) == 0)
        _longjmp(t->loop, 1);
}

void thread_run(struct sim *s, struct sim_worker *w)
{
    struct sim_thread *t = w->thread;

    HVD_ASSERT(!s->running && t);
    s->running = w;
    sim_process = &w->process;
    run_bring_back(&t->kept, w);
    FIBER_LEAVE(&t->loop_fake, t->stack, sizeof(t->stack));
    let_run(t);
    FIBER_ENTER(t->loop_fake);
    run_put_away(&t->kept);
    s->running = NULL;
    if (t->over) {
        w->thread = NULL;
        give(t);
    }
    if (!s->result->ok)
        longjmp(s->violated, 1);
}

void thread_sleep(struct sim *s)
{
    struct sim_thread *t = s->running->thread;

    FIBER_LEAVE(&t->fake, s->loop_stack, s->loop_stack_nbytes);
    give_way(t);
    FIBER_ENTER(t->fake);
    t->worker->sleep = SLEEP_NOT;
}

void thread_die(struct sim *s)
{
    struct sim_thread *t = s->running->thread;

    t->over = true;
    FIBER_LEAVE(NULL, s->loop_stack, s->loop_stack_nbytes);
    _longjmp(t->loop, 1);
}

void thread_end(struct sim *s, struct sim_worker *w)
{
    if (!w->thread || s->running == w) /* else it dies by itself */
        return;
    give(w->thread);
    w->thread = NULL;
}
