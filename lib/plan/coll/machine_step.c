/*
 * machine_step.c - the effect of each kind of step on the machine, and its checks.
 *
 * Each rank has a vector clock: for every rank, the number of steps that it knows to be done. A message
 * carries its sender's clock. So a rank may write to a range that it posted only once its clock covers
 * the peer's receive.
 */
#include "coll/machine.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coll/algo.h"

static const char *const kind_names[] = {"send",       "receive", "recv-reduce", "copy",
					 "finish",     "reduce",  "sync",	 "share",
					 "reduce-all", "recv-all"};
static const char *const buf_names[PLAN_NBUFS] = {"in", "out", "tmp", "wide"};

uint64_t *
machine_at(const struct machine *m, uint32_t r, uint64_t i)
{
	return m->run[r].mem + i * m->words;
}

bool
machine_has(const uint64_t *v, uint32_t r)
{
	return v[W_RANKS + r / 64] >> (r % 64) & 1;
}

void
machine_message_free(struct message *msg)
{
	if (msg) {
		free(msg->value);
		free(msg->clock);
	}
	free(msg);
}

enum progress
machine_bad(const struct machine *m, uint32_t r, struct err *err, const char *fmt, ...)
{
	const struct plan_step *s = &m->info[r].plan->step[m->run[r].pc];
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	err_set(err, RC_FAILED, "%s: rank %u step %zu (%s, round %u): %s", coll_name(m->a->coll), r,
		m->run[r].pc, s->kind <= STEP_RECV_ALL ? kind_names[s->kind] : "unknown kind",
		s->round, text);
	return FAILED;
}

static enum progress
no_memory(struct err *err)
{
	err_set(err, RC_NOMEM, "no memory to run the plans");
	return FAILED;
}

/* Record rank r's access to rank q's memory. Concurrent accesses must all be reads. */
static bool
touch(struct machine *m, uint32_t r, uint32_t q, uint64_t lo, uint64_t count, bool write,
      struct err *err)
{
	struct touches *t = &m->run[q].touched;

	if (!m->mapped || !count)
		return true;
	if (q != r && !m->run[r].clock[q] && !m->run[r].syncs) {
		machine_bad(m, r, err, "%s memory of rank %u, which may not have begun",
			    write ? "writes" : "reads", q);
		return false;
	}
	for (size_t i = 0; i < t->n; i++) {
		const struct touch *o = &t->v[i];

		if (o->rank == r || !(o->write || write) || o->lo >= lo + count ||
		    lo >= o->lo + o->count || m->run[r].clock[o->rank] >= o->step)
			continue;
		machine_bad(m, r, err, "%s memory of rank %u that step %u of rank %u %s, unordered",
			    write ? "writes" : "reads", q, o->step - 1, o->rank,
			    o->write ? "writes" : "reads");
		return false;
	}
	if (!alloc_room(&t->v, t->n, &t->cap, sizeof *t->v)) {
		no_memory(err);
		return false;
	}
	t->v[t->n++] = (struct touch){.rank = r,
				      .step = (uint32_t)m->run[r].pc + 1,
				      .write = write,
				      .lo = lo,
				      .count = count};
	return true;
}

/* Find the range [off, +count) of a buffer of rank q, which rank r accesses. */
static bool
range_of(struct machine *m, uint32_t r, uint32_t q, unsigned buf, uint64_t off, bool write,
	 uint64_t *lo, struct err *err)
{
	uint64_t count = m->info[r].plan->step[m->run[r].pc].count, len;

	if (buf >= PLAN_NBUFS) {
		machine_bad(m, r, err, "no buffer %u", buf);
		return false;
	}
	if (write && buf == PLAN_IN) {
		machine_bad(m, r, err, "writes to in, element %llu", (unsigned long long)off);
		return false;
	}
	len = m->info[q].buf[buf].len;
	if (off > len || count > len - off) {
		machine_bad(m, r, err, "elements %llu..+%llu of %s, which has %llu",
			    (unsigned long long)off, (unsigned long long)count, buf_names[buf],
			    (unsigned long long)len);
		return false;
	}
	*lo = m->info[q].buf[buf].base + off;
	return touch(m, r, q, *lo, count, write, err);
}

/* The range of the rank's own memory that the step reads or writes. */
static bool
find_range(struct machine *m, uint32_t r, unsigned buf, uint64_t off, bool write, uint64_t *lo,
	   struct err *err)
{
	return range_of(m, r, r, buf, off, write, lo, err);
}

/* Check that no element of rank q's [lo, +count), which is [off, ...) of a buffer, is undefined. */
static bool
defined(const struct machine *m, uint32_t r, uint32_t q, uint64_t lo, uint64_t off, uint64_t count,
	struct err *err)
{
	for (uint64_t i = 0; i < count; i++) {
		if (machine_at(m, q, lo + i)[W_ELEM] == MACHINE_UNDEFINED) {
			machine_bad(m, r, err, "reads element %llu, which nothing wrote",
				    (unsigned long long)(off + i));
			return false;
		}
	}
	return true;
}

static bool
all_defined(const struct machine *m, uint32_t r, uint64_t lo, uint64_t off, uint64_t count,
	    struct err *err)
{
	return defined(m, r, r, lo, off, count, err);
}

/* Check that no chunk that the rank posted from [lo, +count) may still be unread. */
static bool
may_write(struct machine *m, uint32_t r, uint64_t lo, uint64_t count, struct err *err)
{
	struct runner *run = &m->run[r];
	size_t kept = 0;

	for (size_t i = 0; i < run->npost; i++) {
		struct message *msg = run->post[i];

		if (msg->received && run->clock[msg->peer] >= msg->received)
			machine_message_free(msg);
		else
			run->post[kept++] = msg;
	}
	run->npost = kept;
	for (size_t i = 0; i < kept; i++) {
		const struct message *msg = run->post[i];

		if (msg->lo < lo + count && lo < msg->lo + msg->count) {
			machine_bad(
			    m, r, err,
			    "overwrites what step %zu posted to rank %u, perhaps not read yet",
			    msg->step, msg->peer);
			return false;
		}
	}
	return true;
}

static bool
overlap_partly(uint64_t x, uint64_t y, uint64_t count)
{
	return x != y && (x < y ? y - x : x - y) < count;
}

/* Check that a buffer of short floats holds only inputs and finished elements: a partial sum there was
 * rounded. */
static bool
none_partial(const struct machine *m, uint32_t r, unsigned buf, const uint64_t *value,
	     uint64_t count, struct err *err)
{
	if (!m->a->wide || !m->reduces || buf == PLAN_WIDE)
		return true;
	for (uint64_t i = 0; i < count; i++) {
		const uint64_t *v = value + i * m->words;
		int n = 0;

		for (size_t w = W_RANKS; w < m->words; w++)
			n += __builtin_popcountll(v[w]);
		if (n > 1 && !v[W_FINISHED]) {
			machine_bad(m, r, err, "rounds a partial sum of %d ranks", n);
			return false;
		}
	}
	return true;
}

/* dst = src plus the contributions of `in`: both must stand for the same element and share no rank. */
static bool
reduce_one(const struct machine *m, uint32_t r, uint64_t i, const uint64_t *src, const uint64_t *in,
	   uint64_t *dst, struct err *err)
{
	unsigned long long n = i;

	if (src[W_ELEM] != in[W_ELEM]) {
		machine_bad(m, r, err,
			    "element %llu of the message is input element %llu, reduced with %llu",
			    n, (unsigned long long)in[W_ELEM], (unsigned long long)src[W_ELEM]);
		return false;
	}
	if (src[W_FINISHED] || in[W_FINISHED]) {
		machine_bad(m, r, err, "reduces element %llu of the message after it was finished",
			    n);
		return false;
	}
	for (size_t w = W_RANKS; w < m->words; w++) {
		if (src[w] & in[w]) {
			int bit = __builtin_ctzll(src[w] & in[w]);

			machine_bad(m, r, err,
				    "counts rank %u twice in element %llu of the message",
				    (unsigned)(w - W_RANKS) * 64 + (unsigned)bit, n);
			return false;
		}
	}
	dst[W_ELEM] = src[W_ELEM];
	dst[W_FINISHED] = 0;
	if (m->trees)
		dst[W_TREE] = trees_join(m->trees, src[W_TREE], in[W_TREE]);
	for (size_t w = W_RANKS; w < m->words; w++)
		dst[w] = src[w] | in[w];
	return true;
}

/* room: one element for each level below. */
static bool
reduce_range(const struct machine *m, uint32_t r, uint64_t i, const uint64_t *const *from,
	     uint32_t n, uint64_t *dst, uint64_t *room, struct err *err)
{
	uint32_t left = plan_left_half(n);

	if (n == 1) {
		memcpy(dst, *from + i * m->words, m->words * sizeof *dst);
		return true;
	}
	return reduce_range(m, r, i, from, left, dst, room, err) &&
	       reduce_range(m, r, i, from + left, n - left, room, room + m->words, err) &&
	       reduce_one(m, r, i, dst, room, dst, err);
}

/* Reduce all ranks' elements by the canonical tree: dst[i] = from[0][i] ... from[nranks-1][i], i <
 * count. They do not overlap. */
static enum progress
reduce_tree(const struct machine *m, uint32_t r, const uint64_t *const *from, uint64_t count,
	    uint64_t *dst, struct err *err)
{
	uint64_t *room = alloc_zeroed(34, m->words * sizeof *room);
	bool good = true;

	if (!room)
		return no_memory(err);
	for (uint64_t i = 0; i < count && good; i++)
		good = reduce_range(m, r, i, from, m->a->nranks, dst + i * m->words, room, err);
	free(room);
	return good ? MOVED : FAILED;
}

/* ---- the steps */

static enum progress
do_send(struct machine *m, uint32_t r, const struct plan_step *s, struct err *err)
{
	struct runner *run = &m->run[r];
	struct channel *ch;
	struct message *msg;
	uint64_t lo;

	if (!find_range(m, r, s->src, s->src_off, false, &lo, err))
		return FAILED;
	if (m->a->chunk && s->count > m->a->chunk)
		return machine_bad(m, r, err,
				   "%llu elements in a message, more than the chunk %llu",
				   (unsigned long long)s->count, (unsigned long long)m->a->chunk);
	ch = &m->channel[(size_t)r * m->a->nranks + s->peer];
	if (ch->n >= PLAN_WINDOW)
		return BLOCKED;
	if (!all_defined(m, r, lo, s->src_off, s->count, err) ||
	    !none_partial(m, r, s->src, machine_at(m, r, lo), s->count, err))
		return FAILED;
	if (!alloc_room(&run->post, run->npost, &run->cap, sizeof *run->post))
		return no_memory(err);
	msg = alloc_zeroed(1, sizeof *msg);
	if (!msg)
		return no_memory(err);
	run->post[run->npost++] = msg;
	msg->peer = s->peer;
	msg->step = run->pc;
	msg->wide = s->src == PLAN_WIDE;
	msg->lo = lo;
	msg->count = s->count;
	msg->value = alloc_zeroed(s->count, m->words * sizeof *msg->value);
	msg->clock = alloc_zeroed(m->a->nranks, sizeof *msg->clock);
	if (!msg->value || !msg->clock)
		return no_memory(err);
	memcpy(msg->value, machine_at(m, r, lo), s->count * m->words * sizeof *msg->value);
	memcpy(msg->clock, run->clock, m->a->nranks * sizeof *msg->clock);
	msg->clock[r] = (uint32_t)run->pc + 1;
	if (ch->tail)
		ch->tail->next = msg;
	else
		ch->head = msg;
	ch->tail = msg;
	ch->n++;
	return MOVED;
}

/* A finish of one element. */
static bool
finish(const struct machine *m, uint32_t r, uint64_t *v, uint64_t i, struct err *err)
{
	unsigned long long n = i;

	if (v[W_FINISHED]) {
		machine_bad(m, r, err, "finishes element %llu twice", n);
		return false;
	}
	for (uint32_t q = 0; q < m->a->nranks; q++) {
		if (!machine_has(v, q)) {
			machine_bad(m, r, err, "finishes element %llu without rank %u", n, q);
			return false;
		}
	}
	v[W_FINISHED] = 1;
	return true;
}

/* Consume the channel's first message. */
static void
take(struct machine *m, uint32_t r, struct channel *ch)
{
	struct message *msg = ch->head;

	ch->head = msg->next;
	if (!ch->head)
		ch->tail = NULL;
	ch->n--;
	msg->received = m->run[r].pc + 1;
	free(msg->value);
	free(msg->clock);
	msg->value = NULL;
	msg->clock = NULL;
}

/* Merge the sender's clock into the rank's. */
static void
learn(struct machine *m, uint32_t r, const struct message *msg)
{
	struct runner *run = &m->run[r];

	for (uint32_t q = 0; q < m->a->nranks; q++)
		if (run->clock[q] < msg->clock[q])
			run->clock[q] = msg->clock[q];
}

static enum progress
do_receive(struct machine *m, uint32_t r, const struct plan_step *s, struct err *err)
{
	struct channel *ch;
	struct message *msg;
	bool reduce = s->kind == STEP_RECV_REDUCE;
	uint64_t src = 0, dst;

	if (!find_range(m, r, s->dst, s->dst_off, true, &dst, err) ||
	    (reduce && !find_range(m, r, s->src, s->src_off, false, &src, err)))
		return FAILED;
	ch = &m->channel[(size_t)s->peer * m->a->nranks + r];
	msg = ch->head;
	if (!msg)
		return BLOCKED;
	if (msg->count != s->count)
		return machine_bad(m, r, err,
				   "expects %llu elements, but step %zu of rank %u sends %llu",
				   (unsigned long long)s->count, msg->step, s->peer,
				   (unsigned long long)msg->count);
	if (!reduce && msg->wide != (s->dst == PLAN_WIDE))
		return machine_bad(m, r, err, "the message and its place differ in width");
	if (reduce && overlap_partly(src, dst, s->count))
		return machine_bad(m, r, err, "source and destination overlap in part");
	if (reduce && !all_defined(m, r, src, s->src_off, s->count, err))
		return FAILED;
	learn(m, r, msg);
	if (!may_write(m, r, dst, s->count, err))
		return FAILED;
	for (uint64_t i = 0; i < s->count; i++) {
		const uint64_t *in = msg->value + i * m->words;

		if (!reduce)
			memcpy(machine_at(m, r, dst + i), in, m->words * sizeof *in);
		else if (!reduce_one(m, r, i, machine_at(m, r, src + i), in,
				     machine_at(m, r, dst + i), err))
			return FAILED;
		if (s->last && !finish(m, r, machine_at(m, r, dst + i), s->dst_off + i, err))
			return FAILED;
	}
	if (!none_partial(m, r, s->dst, machine_at(m, r, dst), s->count, err))
		return FAILED;
	take(m, r, ch);
	return MOVED;
}

/* Find the next message of each other rank, by rank; the own entry is NULL. BLOCKED: one has not arrived. */
static enum progress
next_of_all(struct machine *m, uint32_t r, const struct plan_step *s, struct message **msg,
	    struct err *err)
{
	for (uint32_t q = 0; q < m->a->nranks; q++) {
		msg[q] = q == r ? NULL : m->channel[(size_t)q * m->a->nranks + r].head;
		if (q == r)
			continue;
		if (!msg[q])
			return BLOCKED;
		if (msg[q]->count != s->count)
			return machine_bad(
			    m, r, err, "expects %llu elements, but step %zu of rank %u sends %llu",
			    (unsigned long long)s->count, msg[q]->step, q,
			    (unsigned long long)msg[q]->count);
	}
	return MOVED;
}

/* Reduce the messages of all ranks to dst. */
static enum progress
reduce_messages(struct machine *m, uint32_t r, const struct plan_step *s, struct message **msg,
		uint64_t src, uint64_t dst, struct err *err)
{
	const uint64_t **from = alloc_zeroed(m->a->nranks, sizeof *from);
	uint64_t *sum = alloc_zeroed(s->count, m->words * sizeof *sum);
	enum progress p = from && sum ? MOVED : no_memory(err);

	for (uint32_t q = 0; p == MOVED && q < m->a->nranks; q++)
		from[q] = q == r ? machine_at(m, r, src) : msg[q]->value;
	if (p == MOVED)
		p = reduce_tree(m, r, from, s->count, sum, err);
	for (uint64_t i = 0; p == MOVED && i < s->count; i++)
		if (!finish(m, r, sum + i * m->words, s->dst_off + i, err))
			p = FAILED;
	if (p == MOVED)
		memcpy(machine_at(m, r, dst), sum, s->count * m->words * sizeof *sum);
	free(from);
	free(sum);
	return p;
}

static enum progress
do_receive_all(struct machine *m, uint32_t r, const struct plan_step *s, struct err *err)
{
	struct message **msg = alloc_zeroed(m->a->nranks, sizeof *msg);
	uint64_t src, dst;
	enum progress p = msg ? MOVED : no_memory(err);

	if (p == MOVED && !m->a->canonical)
		p = machine_bad(m, r, err, "the plan is not canonical");
	if (p == MOVED && !m->reduces)
		p = machine_bad(m, r, err, "the collective does not reduce");
	if (p == MOVED && (!find_range(m, r, s->dst, s->dst_off, true, &dst, err) ||
			   !find_range(m, r, s->src, s->src_off, false, &src, err)))
		p = FAILED;
	if (p == MOVED)
		p = next_of_all(m, r, s, msg, err);
	if (p == MOVED && overlap_partly(src, dst, s->count))
		p = machine_bad(m, r, err, "source and destination overlap in part");
	if (p == MOVED && !all_defined(m, r, src, s->src_off, s->count, err))
		p = FAILED;
	for (uint32_t q = 0; p == MOVED && q < m->a->nranks; q++)
		if (q != r)
			learn(m, r, msg[q]);
	if (p == MOVED && !may_write(m, r, dst, s->count, err))
		p = FAILED;
	if (p == MOVED)
		p = reduce_messages(m, r, s, msg, src, dst, err);
	for (uint32_t q = 0; p == MOVED && q < m->a->nranks; q++)
		if (q != r)
			take(m, r, &m->channel[(size_t)q * m->a->nranks + r]);
	free(msg);
	return p;
}

static enum progress
do_copy(struct machine *m, uint32_t r, const struct plan_step *s, struct err *err)
{
	uint64_t src, dst;

	if (!find_range(m, r, s->src, s->src_off, false, &src, err) ||
	    !find_range(m, r, s->dst, s->dst_off, true, &dst, err) ||
	    !all_defined(m, r, src, s->src_off, s->count, err))
		return FAILED;
	if ((s->src == PLAN_WIDE) != (s->dst == PLAN_WIDE))
		return machine_bad(m, r, err, "source and destination differ in width");
	if (src == dst)
		return MOVED;
	if (overlap_partly(src, dst, s->count))
		return machine_bad(m, r, err, "source and destination overlap in part");
	if (!may_write(m, r, dst, s->count, err))
		return FAILED;
	memcpy(machine_at(m, r, dst), machine_at(m, r, src),
	       s->count * m->words * sizeof(uint64_t));
	return MOVED;
}

static enum progress
do_reduce(struct machine *m, uint32_t r, const struct plan_step *s, struct err *err)
{
	uint64_t with, src, dst;

	if (!m->reduces)
		return machine_bad(m, r, err, "the collective does not reduce");
	if (!find_range(m, r, s->with, s->with_off, false, &with, err) ||
	    !find_range(m, r, s->src, s->src_off, false, &src, err) ||
	    !find_range(m, r, s->dst, s->dst_off, true, &dst, err) ||
	    !all_defined(m, r, with, s->with_off, s->count, err) ||
	    !all_defined(m, r, src, s->src_off, s->count, err))
		return FAILED;
	if (overlap_partly(src, dst, s->count) || overlap_partly(with, dst, s->count))
		return machine_bad(m, r, err, "source and destination overlap in part");
	if (!may_write(m, r, dst, s->count, err))
		return FAILED;
	for (uint64_t i = 0; i < s->count; i++) {
		if (!reduce_one(m, r, i, machine_at(m, r, with + i), machine_at(m, r, src + i),
				machine_at(m, r, dst + i), err))
			return FAILED;
		if (s->last && !finish(m, r, machine_at(m, r, dst + i), s->dst_off + i, err))
			return FAILED;
	}
	return none_partial(m, r, s->dst, machine_at(m, r, dst), s->count, err) ? MOVED : FAILED;
}

static enum progress
do_finish(struct machine *m, uint32_t r, const struct plan_step *s, struct err *err)
{
	uint64_t dst;

	if (!m->reduces)
		return machine_bad(m, r, err, "nothing to finish: the collective does not reduce");
	if (!find_range(m, r, s->dst, s->dst_off, true, &dst, err) ||
	    !all_defined(m, r, dst, s->dst_off, s->count, err) ||
	    !may_write(m, r, dst, s->count, err))
		return FAILED;
	for (uint64_t i = 0; i < s->count; i++)
		if (!finish(m, r, machine_at(m, r, dst + i), s->dst_off + i, err))
			return FAILED;
	return MOVED;
}

/*
 * ---- one-sided steps: ranks synchronise, and access each other's memory
 *
 * Two accesses to one element by different ranks, one of them a write, must be ordered: the second rank
 * in this run must know of the first access by its clock. Clocks record knowledge, not time, so one run
 * finds the races of every run.
 */

enum rc
machine_left(const struct machine *m, uint32_t q, struct err *err)
{
	for (size_t i = 0; i < m->run[q].touched.n; i++) {
		const struct touch *t = &m->run[q].touched.v[i];

		if (m->run[q].clock[t->rank] < t->step)
			return err_set(err, RC_FAILED,
				       "%s: rank %u leaves, perhaps before step %u of rank %u %s "
				       "its memory",
				       coll_name(m->a->coll), q, t->step - 1, t->rank,
				       t->write ? "writes" : "reads");
	}
	return RC_OK;
}

/* The rank reaches a sync: publish its clock, and the elements that it shares. */
static enum progress
arrive(struct machine *m, uint32_t r, const struct plan_step *s, struct err *err)
{
	struct runner *run = &m->run[r];
	struct arrival *a = &run->arrival[(run->syncs + 1) % 2];
	size_t nclock = m->a->nranks * sizeof *a->clock;
	uint64_t lo;

	free(a->clock);
	free(a->value);
	*a = (struct arrival){.clock = malloc(nclock)};
	if (!a->clock)
		return no_memory(err);
	memcpy(a->clock, run->clock, nclock);
	if (s->kind == STEP_SHARE) {
		if (!s->count || (m->a->share && s->count > m->a->share))
			return machine_bad(m, r, err, "shares %llu elements, not 1 to %llu",
					   (unsigned long long)s->count,
					   (unsigned long long)m->a->share);
		if (!range_of(m, r, r, s->src, s->src_off, false, &lo, err) ||
		    !defined(m, r, r, lo, s->src_off, s->count, err))
			return FAILED;
		a->count = s->count;
		a->value = alloc_zeroed(s->count, m->words * sizeof *a->value);
		if (!a->value)
			return no_memory(err);
		memcpy(a->value, machine_at(m, r, lo), s->count * m->words * sizeof *a->value);
	}
	run->syncs++;
	run->waiting = true;
	return MOVED;
}

static enum progress
do_sync(struct machine *m, uint32_t r, const struct plan_step *s, struct err *err)
{
	struct runner *run = &m->run[r];

	if (!run->waiting && arrive(m, r, s, err) == FAILED)
		return FAILED;
	for (uint32_t q = 0; q < m->a->nranks; q++)
		if (m->run[q].syncs < run->syncs)
			return BLOCKED;
	for (uint32_t q = 0; q < m->a->nranks; q++) {
		const uint32_t *clock = m->run[q].arrival[run->syncs % 2].clock;

		for (uint32_t k = 0; k < m->a->nranks; k++)
			if (run->clock[k] < clock[k])
				run->clock[k] = clock[k];
	}
	run->waiting = false;
	return MOVED;
}

/* Rank q's elements of the step's source, for rank r to read; NULL: it may not read them. */
static const uint64_t *
source(struct machine *m, uint32_t r, uint32_t q, const struct plan_step *s, struct err *err)
{
	const struct arrival *a = &m->run[q].arrival[m->run[r].syncs % 2];
	uint64_t lo;

	if (s->src != PLAN_SHARED) {
		if (!range_of(m, r, q, s->src, s->src_off, false, &lo, err) ||
		    !defined(m, r, q, lo, s->src_off, s->count, err))
			return NULL;
		return machine_at(m, q, lo);
	}
	if (!m->run[r].syncs || s->src_off > a->count || s->count > a->count - s->src_off) {
		machine_bad(m, r, err, "rank %u has not shared elements %llu..+%llu", q,
			    (unsigned long long)s->src_off, (unsigned long long)s->count);
		return NULL;
	}
	return a->value + s->src_off * m->words;
}

static enum progress
reduce_by_tree(struct machine *m, uint32_t r, const struct plan_step *s, uint64_t *value,
	       struct err *err)
{
	const uint64_t **from = alloc_zeroed(m->a->nranks, sizeof *from);
	enum progress p = from ? MOVED : no_memory(err);

	for (uint32_t q = 0; p == MOVED && q < m->a->nranks; q++)
		if (!(from[q] = source(m, r, q, s, err)))
			p = FAILED;
	if (p == MOVED)
		p = reduce_tree(m, r, from, s->count, value, err);
	free(from);
	return p;
}

/* value = the reduction of all ranks' elements: by the canonical tree, or in rank order. */
static enum progress
reduce_ranks(struct machine *m, uint32_t r, const struct plan_step *s, uint64_t *value,
	     struct err *err)
{
	if (m->a->canonical)
		return reduce_by_tree(m, r, s, value, err);
	for (uint32_t q = 0; q < m->a->nranks; q++) {
		const uint64_t *from = source(m, r, q, s, err);

		if (!from)
			return FAILED;
		for (uint64_t i = 0; i < s->count; i++) {
			uint64_t *v = value + i * m->words;

			if (q == 0)
				memcpy(v, from + i * m->words, m->words * sizeof *v);
			else if (!reduce_one(m, r, i, v, from + i * m->words, v, err))
				return FAILED;
		}
	}
	return MOVED;
}

/* value = the finished reduction of all ranks' elements. */
static enum progress
reduce_and_finish(struct machine *m, uint32_t r, const struct plan_step *s, uint64_t *value,
		  struct err *err)
{
	enum progress p = reduce_ranks(m, r, s, value, err);

	if (p != MOVED)
		return p;
	for (uint64_t i = 0; i < s->count; i++)
		for (uint32_t q = 0; q < m->a->nranks; q++)
			if (!machine_has(value + i * m->words, q))
				return machine_bad(m, r, err, "element %llu without rank %u",
						   (unsigned long long)i, q);
	for (uint64_t i = 0; i < s->count; i++)
		value[i * m->words + W_FINISHED] = 1;
	return MOVED;
}

static enum progress
do_reduce_all(struct machine *m, uint32_t r, const struct plan_step *s, struct err *err)
{
	size_t nbytes = s->count * m->words * sizeof(uint64_t);
	uint64_t *value, lo;
	enum progress p;

	if (!m->reduces)
		return machine_bad(m, r, err, "the collective does not reduce");
	if (s->peer != PLAN_EVERY && s->peer != r)
		return machine_bad(m, r, err, "writes to rank %u alone", s->peer);
	value = alloc_zeroed(s->count ? s->count : 1, m->words * sizeof *value);
	if (!value)
		return no_memory(err);
	p = reduce_and_finish(m, r, s, value, err);
	for (uint32_t q = 0; q < m->a->nranks && p == MOVED; q++) {
		if (s->peer != PLAN_EVERY && q != r)
			continue;
		if (!range_of(m, r, q, s->dst, s->dst_off, true, &lo, err) ||
		    !may_write(m, q, lo, s->count, err))
			p = FAILED;
		else
			memcpy(machine_at(m, q, lo), value, nbytes);
	}
	free(value);
	return p;
}

enum progress
machine_step(struct machine *m, uint32_t r, struct err *err)
{
	size_t pc = m->run[r].pc;
	const struct plan_step *s = &m->info[r].plan->step[pc];
	bool message = s->kind <= STEP_RECV_REDUCE || s->kind == STEP_RECV_ALL;

	if (pc && s->round < s[-1].round)
		return machine_bad(m, r, err, "comes after round %u", s[-1].round);
	if (message && s->kind != STEP_RECV_ALL && (s->peer >= m->a->nranks || s->peer == r))
		return machine_bad(m, r, err, "peer %u of %u ranks", s->peer, m->a->nranks);
	if (message && !s->count && m->a->coll != GPUSIM_BARRIER)
		return machine_bad(m, r, err, "an empty message");
	switch (s->kind) {
	case STEP_SEND:
		return do_send(m, r, s, err);
	case STEP_RECV:
	case STEP_RECV_REDUCE:
		return do_receive(m, r, s, err);
	case STEP_COPY:
		return do_copy(m, r, s, err);
	case STEP_FINISH:
		return do_finish(m, r, s, err);
	case STEP_REDUCE:
		return do_reduce(m, r, s, err);
	case STEP_SYNC:
	case STEP_SHARE:
		return do_sync(m, r, s, err);
	case STEP_REDUCE_ALL:
		return do_reduce_all(m, r, s, err);
	case STEP_RECV_ALL:
		return do_receive_all(m, r, s, err);
	}
	return machine_bad(m, r, err, "kind %u", s->kind);
}
