/* bench/scale_mail.c - messages on their way, and the framing of a batch. See
 * scale.h. The messages in a batch are whole, envelopes and all, as the codec
 * makes them: a relay needs to understand none of them. */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "elastic/wire/codec.h"
#include "scale.h"

enum { LENGTH_MAX = 9, DEPTH_MAX = 3, HOWEVER_MANY = 1 << 24 };

static void reserve(struct scale_bytes *bytes, size_t n)
{
    if (!array_reserve_unset(&bytes->data, &bytes->max, bytes->n + n))
        scale_fail("out of memory");
}

void ids_add(struct ids *ids, uint64_t id)
{
    if (!array_reserve(&ids->items, &ids->max, ids->n + 1))
        scale_fail("out of memory");
    ids->items[ids->n++] = id;
}

/* ---- letters ------------------------------------------------------------- */

static long encode(struct scale_bytes *bytes, const struct message *m)
{
    long n;

    reserve(bytes, 2048);
    n = codec_encode(m, bytes->data + bytes->n, bytes->max - bytes->n);
    if (n < 0)
        scale_fail(codec_strerror((int)n));
    return n;
}

void mail_add(struct mail *mail, struct letter head, const struct message *m)
{
    if (!array_reserve_unset(&mail->letters, &mail->max, mail->n + 1))
        scale_fail("out of memory");
    head.next = 0;
    head.at = mail->bytes.n;
    head.nbytes = (size_t)encode(&mail->bytes, m);
    mail->bytes.n += head.nbytes;
    mail->letters[mail->n++] = head;
}

void mail_clear(struct mail *mail)
{
    mail->n = mail->bytes.n = 0;
}

void mail_fini(struct mail *mail)
{
    free(mail->letters);
    free(mail->bytes.data);
}

/* ---- batches ------------------------------------------------------------- */

static struct pack_writer begin(struct scale_bytes *out, size_t nbytes)
{
    reserve(out, nbytes);
    return (struct pack_writer){.buf = out->data + out->n,
                                .max = out->max - out->n};
}

static void end(struct scale_bytes *out, const struct pack_writer *w)
{
    HVD_ASSERT(!w->full);
    out->n += w->nbytes;
}

void batch_pack(const struct mail *mail, size_t from, size_t to,
                struct scale_bytes *out)
{
    const struct letter *last = &mail->letters[to - 1];
    size_t nbytes = last->at + last->nbytes - mail->letters[from].at;
    struct pack_writer w = begin(out, nbytes + LENGTH_MAX * (to - from + 1));

    pack_array(&w, to - from);
    for (size_t i = from; i < to; i++)
        pack_bin(&w, mail->bytes.data + mail->letters[i].at,
                 mail->letters[i].nbytes);
    end(out, &w);
}

/* NULL: there is none. */
static const struct letter *after(const struct mail *mail,
                                  const struct letter *letter)
{
    return letter->next > 0 ? &mail->letters[letter->next - 1] : NULL;
}

static bool is_alike(const struct mail *mail, const struct letter *a,
                     const struct letter *b)
{
    return b && a->worker != 0 && b->worker != 0 && a->nbytes == b->nbytes &&
           a->table == b->table &&
           memcmp(mail->bytes.data + a->at, mail->bytes.data + b->at,
                  a->nbytes) == 0;
}

/* Of letters that are alike, how many in a row; *next_p: behind them. */
static size_t run_of(const struct mail *mail, const struct letter *first,
                     const struct letter **next_p)
{
    const struct letter *letter = first;
    size_t n = 0;

    do {
        letter = after(mail, letter);
        n++;
    } while (is_alike(mail, first, letter));
    *next_p = letter;
    return n;
}

static size_t count_bodies(const struct mail *mail, const struct letter *letter,
                           size_t *nbytes_p)
{
    size_t n = 0;

    for (*nbytes_p = LENGTH_MAX; letter; n++) {
        const struct letter *next;

        *nbytes_p += letter->nbytes + 2 * LENGTH_MAX;
        *nbytes_p += LENGTH_MAX * run_of(mail, letter, &next);
        letter = next;
    }
    return n;
}

void batch_pack_for(const struct mail *mail, size_t first,
                    struct scale_bytes *out)
{
    const struct letter *letter = &mail->letters[first];
    size_t nbytes, n_bodies = count_bodies(mail, letter, &nbytes);
    struct pack_writer w = begin(out, nbytes);

    pack_array(&w, 2 * n_bodies);
    while (letter) {
        const struct letter *next, *body = letter;
        size_t n = run_of(mail, letter, &next);

        pack_array(&w, n);
        for (; letter != next; letter = after(mail, letter))
            pack_uint(&w, letter->worker);
        pack_bin(&w, mail->bytes.data + body->at, body->nbytes);
    }
    end(out, &w);
}

/* ---- reading ------------------------------------------------------------- */

static struct pack_item take(struct batch *b, enum pack_type type)
{
    struct pack_item item;

    if (pack_next(&b->r, &item) != CODEC_OK || item.type != type)
        scale_fail("a batch cannot be read");
    return item;
}

void batch_open(struct batch *b, const uint8_t *bytes, size_t nbytes)
{
    b->r = (struct pack_reader){bytes, bytes + nbytes};
    if (pack_scan(bytes, nbytes, DEPTH_MAX, HOWEVER_MANY) != CODEC_OK)
        scale_fail("a batch is no value");
    b->n_left = take(b, PACK_ARRAY).count;
}

bool batch_next(struct batch *b, struct batch_item *item)
{
    struct pack_item bytes;

    if (b->n_left == 0)
        return false;
    bytes = take(b, PACK_BIN);
    item->bytes = bytes.data;
    item->nbytes = bytes.count;
    b->n_left--;
    return true;
}

bool batch_next_for(struct batch *b, struct batch_item *item)
{
    if (b->n_left == 0)
        return false;
    item->n_whom = take(b, PACK_ARRAY).count;
    if (item->n_whom > HOSTS_SLOTS_MAX)
        scale_fail("a batch is for too many");
    for (uint32_t i = 0; i < item->n_whom; i++)
        item->whom[i] = take(b, PACK_UINT).value;
    b->n_left--;
    return batch_next(b, item);
}
