/* tests/collectives/test_negotiator_orders.c - ranks that post names in
 * thousands of orders, and join when they have no more: they decide the same,
 * all that all have posted, and none waits for ever. In half of the plays most
 * steps are alike, and an order is learned. HVD_TEST_SEED plays one of them. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "names.h"

enum {
    RANKS_MAX = 64,
    NAMES_MAX = 48,
    STEPS_MAX = 40,
    ALIKE_MAX = 6, /* names of steps that are alike */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    SEEDS = 300,
#else
    SEEDS = 3000,
#endif
};

/* A program: epochs of steps, in each of which every rank posts the same names,
 * in an order of its own, and waits for all. A rank may have fewer steps of an
 * epoch than others: it joins behind its last, whether or not that is over. */
struct step {
    bool ends; /* its epoch */
    int n;
    int names[NAMES_MAX];
    uint64_t counts[NAMES_MAX];
    int differs[NAMES_MAX]; /* a rank that calls something else; -1: none */
};

enum doing { FREE, IN_ROUND, IN_EXCHANGE, IN_QUESTION, FINISHED };

struct player {
    struct negotiator *n;
    enum doing doing;
    int step, n_posted, n_open; /* calls of the step */
    int order[NAMES_MAX];
    bool lacks[STEPS_MAX]; /* has no data for this step */
    bool joins, through;   /* its join is over */
    uint64_t met;          /* collectives entered */
    size_t n_log;          /* decisions seen */
};

/* Each collective is entered by all before it is over for any; so two are under
 * way at most. */
struct meeting {
    int n_entered;
    size_t nbytes;
    uint8_t *bytes; /* [size][nbytes] */
    bool combined;  /* the first [nbytes] are the least of all */
    bool alike;     /* ... but for the first byte, all ranks' were the same */
};

struct decision {
    int name;
    bool disputed;
    int first_rank, other_rank;
    size_t n_data;
};

struct play {
    struct random_state random;
    uint64_t seed;
    int size, n_steps;
    struct step steps[STEPS_MAX];
    bool alike;                 /* most steps are */
    bool joins;                 /* epochs end so */
    int last_joined[STEPS_MAX]; /* behind this step; -1: not yet */
    struct player players[RANKS_MAX];
    struct meeting meetings[2];
    struct decision log[STEPS_MAX * NAMES_MAX];
    size_t n_log, n_posts, n_rounds, n_questions;
    uint64_t n_begun; /* collectives that somebody has entered */
};

/* Of all plays: answers to questions, by whether there was one. */
static size_t n_followed, n_refused, n_at_once;

/* Check writes down each of its own. */
#define CHECK(p, condition)                                           \
    do {                                                              \
        if (!(condition))                                             \
            ck_abort_msg("seed %" PRIu64 ", %d ranks: %s", (p)->seed, \
                         (p)->size, #condition);                      \
    } while (0)

static int draw(struct play *p, int n)
{
    return (int)random_below(&p->random, (uint64_t)n);
}

static void shuffle(struct play *p, int *a, int n)
{
    for (int i = n - 1; i > 0; i--) {
        int k = draw(p, i + 1), t = a[i];

        a[i] = a[k];
        a[k] = t;
    }
}

static void join(struct play *p, struct player *r)
{
    negotiator_join(r->n);
    r->joins = true;
    p->n_posts++; /* it takes rounds as one does */
}

static void begin_step(struct play *p, struct player *r)
{
    int n = p->steps[r->step].n;

    r->n_posted = r->n_open = 0;
    if (r->lacks[r->step]) {
        r->n_posted = n;
        join(p, r);
        return;
    }
    r->n_open = n;
    for (int i = 0; i < n; i++)
        r->order[i] = i;
    if (!p->alike || draw(p, 10) == 0)
        shuffle(p, r->order, n);
}

static int n_lacking(const struct play *p, int step)
{
    int n = 0;

    for (int i = 0; i < p->size; i++)
        n += p->players[i].lacks[step];
    return n;
}

/* Ranks lack the last steps of an epoch, but one lacks none. */
static void draw_lacks(struct play *p, int first, int last)
{
    int all = draw(p, p->size);

    for (int i = 0; i < p->size; i++) {
        int has = draw(p, 2) == 0 ? draw(p, last - first + 2) : STEPS_MAX;

        for (int s = first; s <= last; s++)
            p->players[i].lacks[s] = i != all && s - first >= has;
    }
}

static void write_epochs(struct play *p)
{
    int first = 0;

    p->joins = draw(p, 2) == 0;
    for (int s = 0; s < p->n_steps; s++) {
        p->steps[s].ends = s + 1 == p->n_steps || draw(p, 3) == 0;
        p->last_joined[s] = -1;
        if (!p->steps[s].ends)
            continue;
        if (p->joins)
            draw_lacks(p, first, s);
        first = s + 1;
    }
}

static void write_steps(struct play *p)
{
    int n_names = 1 + draw(p, NAMES_MAX), names[NAMES_MAX];

    for (int i = 0; i < n_names; i++)
        names[i] = i;
    p->n_steps = 1 + draw(p, STEPS_MAX);
    for (int s = 0; s < p->n_steps; s++) {
        struct step *step = &p->steps[s];

        shuffle(p, names, n_names);
        step->n = 1 + draw(p, n_names);
        for (int i = 0; i < step->n; i++) {
            step->names[i] = names[i];
            step->counts[i] = draw(p, 20) == 0 ? 99 : 7;
            step->differs[i] = draw(p, 30) == 0 ? draw(p, p->size) : -1;
        }
    }
}

/* Now and then one lacks names, has them in another order, or has others. */
static void write_alike_steps(struct play *p)
{
    int n_names = 1 + draw(p, ALIKE_MAX);

    p->n_steps = 2 + draw(p, STEPS_MAX - 1);
    for (int s = 0; s < p->n_steps; s++) {
        struct step *step = &p->steps[s];
        bool odd = draw(p, 12) == 0;

        step->n = odd ? 1 + draw(p, n_names + 1) : n_names;
        for (int i = 0; i < step->n; i++) {
            step->names[i] = i;
            step->counts[i] = odd && draw(p, 4) == 0 ? 99 : 7;
            step->differs[i] = odd && draw(p, 4) == 0 ? draw(p, p->size) : -1;
        }
        if (odd)
            shuffle(p, step->names, step->n);
    }
}

static void begin_play(struct play *p, uint64_t seed)
{
    memset(p, 0, sizeof(*p));
    p->seed = seed;
    p->random.s = seed;
    p->size = seed % 50 == 0 ? RANKS_MAX : 2 + draw(p, seed % 5 ? 4 : 15);
    p->alike = seed % 2 == 0;
    if (p->alike)
        write_alike_steps(p);
    else
        write_steps(p);
    write_epochs(p);
    for (int i = 0; i < p->size; i++) {
        p->players[i].n = negotiator_create(i, p->size, 1 + seed % 60);
        negotiator_learn(p->players[i].n, seed % 6 != 0);
        begin_step(p, &p->players[i]);
    }
}

static void end_play(struct play *p)
{
    for (int i = 0; i < p->size; i++)
        negotiator_destroy(p->players[i].n);
    free(p->meetings[0].bytes);
    free(p->meetings[1].bytes);
}

static void player_post(struct play *p, int rank)
{
    struct player *r = &p->players[rank];
    const struct step *step = &p->steps[r->step];
    int i = r->order[r->n_posted++];
    struct name_id id = name_of(step->names[i]);
    struct signature s = sum_of(step->counts[i] +
                                (uint64_t)(step->differs[i] == rank));

    s.root = step->names[i];
    p->n_posts++;
    CHECK(p, negotiator_post(r->n, &id, &s,
                             (void *)(uintptr_t)(step->names[i] + 1)));
}

static struct meeting *enter(struct play *p, struct player *r, size_t nbytes)
{
    struct meeting *m = &p->meetings[++r->met % 2];

    if (r->met > p->n_begun) {
        p->n_begun = r->met;
        free(m->bytes);
        *m = (struct meeting){.nbytes = nbytes,
                              .bytes = calloc((size_t)p->size, nbytes)};
    }
    CHECK(p, m->nbytes == nbytes);
    m->n_entered++;
    return m;
}

static void enter_round(struct play *p, int rank)
{
    struct player *r = &p->players[rank];
    size_t nbytes = negotiator_round_nbytes(r->n);
    struct meeting *m = enter(p, r, nbytes);

    p->n_rounds += m->n_entered == 1;
    negotiator_round_begin(r->n, m->bytes + (size_t)rank * nbytes);
    r->doing = IN_ROUND;
}

static void enter_exchange(struct play *p, int rank)
{
    struct player *r = &p->players[rank];
    size_t nbytes = negotiator_exchange_nbytes(r->n);
    struct meeting *m = enter(p, r, nbytes);

    negotiator_exchange_begin(r->n, m->bytes + (size_t)rank * nbytes);
    r->doing = IN_EXCHANGE;
}

/* The first byte: how many of what is next has this rank? And what all ranks
 * take that to be. */
static void enter_question(struct play *p, int rank, bool ready)
{
    struct player *r = &p->players[rank];
    size_t n = negotiator_n_asked(r->n), n_here = 0;
    struct meeting *m = enter(p, r, n + 1);
    uint8_t *out = m->bytes + (size_t)rank * (n + 1);

    p->n_questions += m->n_entered == 1;
    CHECK(p, negotiator_n_stretch(r->n) <= n);
    for (size_t i = 0; i < n; i++) {
        out[1 + i] = (uint8_t)negotiator_asked(r->n, i)->root;
        n_here += n_here == i && negotiator_asked_call(r->n, i) != NULL;
    }
    CHECK(p, !ready || n_here > 0);
    out[0] = ready ? (uint8_t)n_here : 0;
    r->doing = IN_QUESTION;
}

static int index_in(const struct step *step, int name)
{
    for (int i = 0; i < step->n; i++)
        if (step->names[i] == name)
            return i;
    return -1;
}

/* By a rank that has data for the step: those that have not have joined. */
static void judge(struct play *p, int at, const struct decision *d)
{
    const struct step *step = &p->steps[at];
    int i = index_in(step, d->name), n = n_lacking(p, at), rank;

    CHECK(p, i >= 0);
    CHECK(p, d->n_data == (size_t)(p->size - n));
    rank = step->differs[i];
    CHECK(p, d->disputed ==
                 (rank >= 0 && !p->players[rank].lacks[at] && p->size - n > 1));
    if (d->disputed)
        CHECK(p, !p->players[d->first_rank].lacks[at] &&
                     !p->players[d->other_rank].lacks[at]);
}

/* Everybody sees the same decisions; the first one writes them down. */
static void take_decision(struct play *p, struct player *r,
                          const struct negotiated *next)
{
    int name = next->signature.root;
    struct decision d;

    memset(&d, 0, sizeof(d));
    d.name = name;
    d.disputed = next->disputed;
    d.first_rank = next->disputed ? next->first_rank : 0;
    d.other_rank = next->disputed ? next->other_rank : 0;
    d.n_data = next->n_data;
    if (r->n_log == p->n_log)
        p->log[p->n_log++] = d;
    CHECK(p, memcmp(&p->log[r->n_log++], &d, sizeof(d)) == 0);
    CHECK(p, next->call != NULL || r->joins);
    if (next->call == NULL)
        return;
    CHECK(p, (int)(uintptr_t)next->call - 1 == name);
    judge(p, r->step, &d);
    r->n_open--;
}

/* The last rank has had data to the end. */
static bool end_join(struct play *p, struct player *r)
{
    int rank;

    if (!negotiator_all_joined(r->n, &rank))
        return false;
    while (!p->steps[r->step].ends)
        r->step++;
    if (p->last_joined[r->step] < 0)
        p->last_joined[r->step] = rank;
    CHECK(p, rank == p->last_joined[r->step]);
    CHECK(p, !p->players[rank].lacks[r->step]);
    r->joins = false;
    r->through = true;
    return true;
}

static void next_step(struct play *p, struct player *r)
{
    r->step++;
    r->through = false;
    r->doing = r->step < p->n_steps ? FREE : FINISHED;
    if (r->doing == FREE)
        begin_step(p, r);
}

static void go_on(struct play *p, int rank)
{
    struct player *r = &p->players[rank];
    struct negotiated next;

    if (negotiator_exchange_nbytes(r->n) > 0) {
        enter_exchange(p, rank);
        return;
    }
    while (negotiator_next(r->n, &next))
        take_decision(p, r, &next);
    r->doing = FREE;
    if (r->n_open > 0 || (r->joins && !end_join(p, r)))
        return;
    if (p->steps[r->step].ends && p->joins && !r->through) {
        join(p, r);
        return;
    }
    next_step(p, r);
}

static void combine(struct meeting *m, int size)
{
    if (m->combined)
        return;
    m->combined = m->alike = true;
    for (int rank = 1; rank < size; rank++) {
        const uint8_t *from = m->bytes + (size_t)rank * m->nbytes;

        m->alike &= memcmp(from + 1, m->bytes + 1, m->nbytes - 1) == 0;
        for (size_t k = 0; k < m->nbytes; k++)
            m->bytes[k] = from[k] < m->bytes[k] ? from[k] : m->bytes[k];
    }
}

/* Where a rank had not the first, a round follows. */
static void leave_question(struct play *p, int rank, struct meeting *m)
{
    struct player *r = &p->players[rank];
    size_t n;

    combine(m, p->size);
    CHECK(p, m->alike);
    n = m->bytes[0];
    n_followed += n > 0;
    n_refused += n == 0;
    n_at_once += n > 1;
    negotiator_answered(r->n, n);
    if (n > 0)
        go_on(p, rank);
    else
        enter_round(p, rank);
}

static void leave_meeting(struct play *p, int rank)
{
    struct player *r = &p->players[rank];
    struct meeting *m = &p->meetings[r->met % 2];

    if (r->doing == IN_QUESTION) {
        leave_question(p, rank, m);
        return;
    }
    if (r->doing == IN_ROUND) {
        combine(m, p->size);
        negotiator_round_end(r->n, m->bytes);
    } else {
        CHECK(p, negotiator_exchange_end(r->n, m->bytes));
    }
    go_on(p, rank);
}

/* While its last calls are under way. */
static bool joins_early(struct play *p, const struct player *r)
{
    const struct step *step = &p->steps[r->step];

    return p->joins && !r->joins && step->ends && r->n_open > 0 &&
           r->n_posted == step->n && draw(p, 4) == 0;
}

/* While an order is followed. Who lacks something posts it, unless it loses
 * patience. */
static bool follow(struct play *p, int rank)
{
    struct player *r = &p->players[rank];
    bool posts = r->n_posted < p->steps[r->step].n;
    enum negotiator_look look = negotiator_look(r->n);

    if (negotiator_n_posted(r->n) == 0 && !r->joins) {
        if (posts)
            player_post(p, rank);
        return posts;
    }
    if (posts &&
        draw(p, look == LOOK_LACKS || look == LOOK_OVERTAKEN ? 20 : 3) > 0)
        player_post(p, rank);
    else
        enter_question(p, rank, look == LOOK_READY);
    return true;
}

/* One move of this rank, if it has any. */
static bool move(struct play *p, int rank)
{
    struct player *r = &p->players[rank];
    bool posts, takes_part;

    if (r->doing == FINISHED)
        return false;
    if (joins_early(p, r)) {
        join(p, r);
        return true;
    }
    if (r->doing != FREE) {
        posts = r->n_posted < p->steps[r->step].n;
        if (posts && draw(p, 3) == 0) /* any thread may, at any time */
            player_post(p, rank);
        else if (p->meetings[r->met % 2].n_entered == p->size)
            leave_meeting(p, rank);
        else if (posts)
            player_post(p, rank);
        else
            return false;
        return true;
    }
    if (negotiator_follows(r->n))
        return follow(p, rank);
    posts = r->n_posted < p->steps[r->step].n;
    takes_part = (negotiator_n_posted(r->n) > 0 || r->joins) &&
                 (negotiator_has_news(r->n) || p->n_begun > r->met);
    if (takes_part && (!posts || draw(p, 2) == 0))
        enter_round(p, rank);
    else if (posts)
        player_post(p, rank);
    else
        return takes_part;
    return true;
}

/* Some ranks are asleep for long. */
static int choose(struct play *p)
{
    int rank = draw(p, p->size);

    return draw(p, 4) == 0 ? rank : draw(p, rank + 1);
}

/* false: nobody can move. */
static bool move_anybody(struct play *p)
{
    int first = choose(p);

    for (int i = 0; i < p->size; i++)
        if (move(p, (first + i) % p->size))
            return true;
    return false;
}

static void play(uint64_t seed)
{
    static struct play p;
    size_t n_calls = 0;

    begin_play(&p, seed);
    while (move_anybody(&p))
        continue;
    for (int s = 0; s < p.n_steps; s++)
        n_calls += (size_t)p.steps[s].n;
    for (int i = 0; i < p.size; i++) {
        CHECK(&p, p.players[i].doing == FINISHED);
        CHECK(&p, p.players[i].n_log == n_calls);
        CHECK(&p, !negotiator_has_news(p.players[i].n));
    }
    CHECK(&p, p.n_log == n_calls);
    /* with a new name's two; a place may be lost now and then */
    CHECK(&p, p.n_rounds <= 3 * p.n_posts);
    CHECK(&p, p.n_questions <= p.n_posts);
    end_play(&p);
}

START_TEST(in_any_order_all_decide_the_same_and_nobody_waits_for_ever)
{
    const char *one = getenv("HVD_TEST_SEED");

    if (one != NULL) {
        play(strtoull(one, NULL, 10));
        return;
    }
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        play(seed);
    ck_assert_uint_gt(n_followed, SEEDS);
    ck_assert_uint_gt(n_refused, SEEDS / 10);
    ck_assert_uint_gt(n_at_once, SEEDS / 10);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("negotiator_orders");
    TCase *tc = tcase_create("negotiator_orders");

    tcase_set_timeout(tc, 200);
    tcase_add_test(tc,
                   in_any_order_all_decide_the_same_and_nobody_waits_for_ever);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
