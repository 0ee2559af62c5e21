/* Reading an area: sources of bytes, and checks. */
#include "flight/read.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "flight/ticks.h"

#define TRIES 16

/* ---- sources */

static enum rc
read_file(void *arg, uint64_t offset, void *dst, size_t n, struct err *err)
{
	const struct flight_file *f = arg;
	ssize_t k;

	if (offset > f->nbytes || n > f->nbytes - offset)
		return err_set(err, RC_BADDATA, "the recorder ends at byte %" PRIu64, f->nbytes);
	k = file_read_at(f->fd, dst, n, f->offset + offset);
	if (k < 0)
		return err_set(err, RC_FAILED, "the recorder cannot be read: %s", strerror(errno));
	return k == (ssize_t)n ? RC_OK : err_set(err, RC_BADDATA, "the recorder's file ends early");
}

struct flight_source
flight_file_source(struct flight_file *f)
{
	return (struct flight_source){read_file, f};
}

static enum rc
read_bytes(void *arg, uint64_t offset, void *dst, size_t n, struct err *err)
{
	const struct flight_bytes *b = arg;

	if (offset > b->nbytes || n > b->nbytes - offset)
		return err_set(err, RC_BADDATA, "the recorder ends at byte %" PRIu64, b->nbytes);
	memcpy(dst, (const char *)b->at + offset, n);
	return RC_OK;
}

struct flight_source
flight_bytes_source(struct flight_bytes *b)
{
	return (struct flight_source){read_bytes, b};
}

/* ---- the header */

/* A text of a fixed array: it ends, and has printable ASCII alone. */
static void
clean(char *s, size_t room)
{
	s[room - 1] = '\0';
	for (; *s; s++)
		if (*s < ' ' || *s > '~')
			*s = '?';
}

static bool
is_sane(const struct flight_header *h)
{
	return memcmp(h->magic, FLIGHT_MAGIC, sizeof h->magic) == 0 &&
	       h->version == FLIGHT_VERSION && h->nrings >= 1 && h->nrings <= FLIGHT_RINGS_MAX &&
	       h->nrecords >= FLIGHT_RECORDS_MIN && h->nrecords <= FLIGHT_RECORDS_MAX &&
	       (h->nrecords & (h->nrecords - 1)) == 0 &&
	       h->ring_bytes == FLIGHT_RING_BYTES(h->nrecords) &&
	       h->nbytes == FLIGHT_AREA_BYTES(h->nrings, h->nrecords) && h->hz >= 1000000 &&
	       h->hz <= UINT64_C(100000000000);
}

enum rc
flight_read_header(const struct flight_source *s, struct flight_header *out, struct err *err)
{
	uint32_t turn = 1;
	enum rc rc = RC_OK;

	for (int i = 0; i < TRIES && rc == RC_OK; i++) {
		rc = s->read(s->arg, 0, out, sizeof *out, err);
		if (rc == RC_OK)
			rc = s->read(s->arg, offsetof(struct flight_header, turn), &turn,
				     sizeof turn, err);
		if (rc == RC_OK && turn == atomic_load(&out->turn) && (turn & 1) == 0)
			break;
	}
	if (rc != RC_OK)
		return rc;
	if (!is_sane(out))
		return err_set(err, RC_BADDATA, "not a recorder's area, or of another version");
	if (turn != atomic_load(&out->turn) || turn & 1 || out->last.ticks < out->first.ticks ||
	    out->last.mono_ns < out->first.mono_ns) {
		/* The process was killed while it wrote this part. */
		out->last = out->first;
		out->error_ns = UINT64_MAX;
	}
	for (uint32_t i = 0; i < FLIGHT_GROUPS; i++)
		clean(out->group[i].name, sizeof out->group[i].name);
	clean(out->host, sizeof out->host);
	clean(out->name, sizeof out->name);
	return RC_OK;
}

/* ---- a ring */

static uint64_t
ring_offset(const struct flight_header *h, uint32_t i)
{
	return FLIGHT_RING_AT(i, h->nrecords);
}

/* Read the current operation consistently; else as if there were none. */
static enum rc
read_live(const struct flight_source *s, uint64_t at, struct flight_live *out, struct err *err)
{
	uint64_t offset = at + offsetof(struct flight_ring, live);
	uint32_t turn = 0;
	enum rc rc = RC_OK;

	for (int i = 0; i < TRIES && rc == RC_OK; i++) {
		rc = s->read(s->arg, offset, out, sizeof *out, err);
		if (rc == RC_OK)
			rc = s->read(s->arg, offset + offsetof(struct flight_live, turn), &turn,
				     sizeof turn, err);
		if (rc == RC_OK && turn == atomic_load(&out->turn))
			return RC_OK;
	}
	atomic_store(&out->turn, 0);
	return rc;
}

static bool op_makes_sense(const struct flight_op *o);

enum rc
flight_read_ring(const struct flight_source *s, const struct flight_header *h, uint32_t i,
		 struct flight_ring *out, struct err *err)
{
	uint64_t at = ring_offset(h, i);
	enum rc rc;

	if (i >= h->nrings || !(atomic_load(&h->backed) >> i & 1))
		return err_set(err, RC_NOTFOUND, "ring %" PRIu32 " was never used", i);
	rc = s->read(s->arg, at, out, sizeof *out, err);
	if (rc == RC_OK)
		rc = read_live(s, at, &out->live, err);
	if (rc != RC_OK)
		return rc;
	clean(out->name, sizeof out->name);
	clean(out->now.name, sizeof out->now.name);
	if (atomic_load(&out->now.what) >= FLIGHT_NTASKS || !out->now.since)
		atomic_store(&out->now.what, FLIGHT_TASK_NONE);
	out->live.op.kind = FLIGHT_OP;
	out->live.op.end = 0;
	if (!op_makes_sense(&out->live.op))
		atomic_store(&out->live.turn, 0);
	return atomic_load(&out->state) == FLIGHT_RING_NEW
		   ? err_set(err, RC_NOTFOUND, "ring %" PRIu32 " was never used", i)
		   : RC_OK;
}

/* ---- records */

#define RC_BOUND 64u /* results are smaller */

static bool
is_interval(uint64_t begin, uint64_t end)
{
	return begin && end >= begin;
}

static bool
op_makes_sense(const struct flight_op *o)
{
	return o->coll < FLIGHT_COLLS && o->dtype < 64 && o->redop < 64 && o->result < RC_BOUND &&
	       o->begin && (o->end == 0 || o->end >= o->begin) &&
	       (o->nranks == 0 || o->rank < o->nranks);
}

static bool
makes_sense(union flight_record *r)
{
	switch ((enum flight_kind)r->kind) {
	case FLIGHT_OP:
		return op_makes_sense(&r->op);
	case FLIGHT_WAIT:
	case FLIGHT_STEP:
		return is_interval(r->step.begin, r->step.end) && r->step.what < 32 &&
		       r->step.result < RC_BOUND && r->step.waited <= r->step.end - r->step.begin;
	case FLIGHT_KERNEL:
		clean(r->kernel.name, sizeof r->kernel.name);
		return is_interval(r->kernel.begin, r->kernel.end) && r->kernel.result < RC_BOUND;
	case FLIGHT_COPY:
	case FLIGHT_PAUSE:
		return is_interval(r->copy.begin, r->copy.end) && r->copy.what >= 1 &&
		       r->copy.what <= FLIGHT_PAUSE_TURN && r->copy.result < RC_BOUND;
	case FLIGHT_MARK:
		return r->mark.at && r->mark.ntext <= FLIGHT_TEXTS_MAX &&
		       r->mark.result < RC_BOUND &&
		       strcmp(flight_mark_name(r->mark.what), "?") != 0;
	case FLIGHT_TEXT:
		return r->text.n <= FLIGHT_TEXT_BYTES;
	case FLIGHT_RANGE:
		clean(r->range.name, sizeof r->range.name);
		return is_interval(r->range.begin, r->range.end) && r->range.what >= 1 &&
		       r->range.what <= FLIGHT_RANGE_PHASE;
	case FLIGHT_NONE:
	case FLIGHT_NKINDS:
		break;
	}
	return false;
}

/* Leave out invalid records, and texts without their mark; true: at *end is a mark whose texts are not all
 * here. */
static size_t
sift(union flight_record *r, size_t n, bool more, size_t *taken, uint64_t *bad)
{
	size_t kept = 0, i = 0;

	while (i < n) {
		size_t len = 1;

		if (!makes_sense(&r[i])) {
			*bad += 1;
			i++;
			continue;
		}
		if (r[i].kind == FLIGHT_TEXT) {
			i++;
			continue;
		}
		if (r[i].kind == FLIGHT_MARK) {
			if (more && i && i + 1 + r[i].mark.ntext > n)
				break;
			while (len <= r[i].mark.ntext && i + len < n &&
			       r[i + len].kind == FLIGHT_TEXT && makes_sense(&r[i + len]))
				len++;
			r[i].mark.ntext = (uint8_t)(len - 1);
		}
		memmove(&r[kept], &r[i], len * sizeof *r);
		kept += len;
		i += len;
	}
	*taken = i;
	return kept;
}

/* Records [from, from + n) of a ring, which may wrap. */
static enum rc
read_range(const struct flight_source *s, const struct flight_header *h, uint32_t i, uint64_t from,
	   size_t n, union flight_record *out, struct err *err)
{
	uint64_t at = ring_offset(h, i) + FLIGHT_HEAD_BYTES, place = from & (h->nrecords - 1);
	size_t first = n < h->nrecords - place ? n : (size_t)(h->nrecords - place);
	enum rc rc = s->read(s->arg, at + place * sizeof *out, out, first * sizeof *out, err);

	if (rc == RC_OK && n > first)
		rc = s->read(s->arg, at, out + first, (n - first) * sizeof *out, err);
	return rc;
}

struct ends {
	uint64_t head, first;
};

static enum rc
read_ends(const struct flight_source *s, const struct flight_header *h, uint32_t i,
	  struct ends *out, struct err *err)
{
	_Static_assert(offsetof(struct flight_ring, first) ==
			   offsetof(struct flight_ring, head) + sizeof(uint64_t),
		       "side by side");
	return s->read(s->arg, ring_offset(h, i) + offsetof(struct flight_ring, head), out,
		       sizeof *out, err);
}

/* The oldest record that is certainly not overwritten. */
static uint64_t
oldest(const struct flight_header *h, const struct ends *e)
{
	uint64_t keeps = h->nrecords - FLIGHT_MARGIN, from = e->head > keeps ? e->head - keeps : 0;

	return from > e->first && e->first <= e->head ? from
	       : e->first < e->head		      ? e->first
						      : e->head;
}

enum rc
flight_read_records(const struct flight_source *s, const struct flight_header *h, uint32_t i,
		    uint64_t *next, union flight_record *out, size_t max, size_t *n, uint64_t *lost,
		    uint64_t *bad, struct err *err)
{
	struct ends e, after;
	uint64_t from = *next, left_out = 0;
	size_t got, taken, gone = 0;
	bool more;
	enum rc rc;

	*n = 0;
	if (max < 2 * FLIGHT_MARGIN)
		return err_set(err, RC_INVAL, "room for fewer than %u records", 2 * FLIGHT_MARGIN);
	rc = read_ends(s, h, i, &e, err);
	if (rc != RC_OK)
		return rc;
	if (from == 0 || from > e.head || from < oldest(h, &e)) {
		if (from && from < oldest(h, &e))
			*lost += oldest(h, &e) - from;
		from = oldest(h, &e);
	}
	more = e.head - from > max;
	got = more ? max : (size_t)(e.head - from);
	rc = read_range(s, h, i, from, got, out, err);
	if (rc == RC_OK)
		rc = read_ends(s, h, i, &after, err);
	if (rc != RC_OK)
		return rc;
	/* Overwritten meanwhile. */
	if (from < oldest(h, &after)) {
		gone = oldest(h, &after) - from < got ? (size_t)(oldest(h, &after) - from) : got;
		if (*next)
			*lost += gone;
		memmove(out, out + gone, (got - gone) * sizeof *out);
	}
	*n = sift(out, got - gone, more, &taken, &left_out);
	*next = from + gone + taken;
	if (bad)
		*bad += left_out;
	return RC_OK;
}

/* ---- copies */

static enum rc
copy_ring(const struct flight_source *s, const struct flight_header *h, uint32_t i, char *to,
	  struct err *err)
{
	struct flight_ring *r = (struct flight_ring *)(void *)to;
	struct ends e;
	uint64_t from;
	enum rc rc = flight_read_ring(s, h, i, r, err);

	if (rc == RC_NOTFOUND) /* its state says so */
		return RC_OK;
	if (rc == RC_OK)
		rc = read_range(s, h, i, 0, h->nrecords,
				(union flight_record *)(void *)(to + FLIGHT_HEAD_BYTES), err);
	if (rc == RC_OK)
		rc = read_ends(s, h, i, &e, err);
	if (rc != RC_OK)
		return rc;
	/* Records that came in between lie where older ones were. */
	from = e.head > h->nrecords - FLIGHT_MARGIN ? e.head - (h->nrecords - FLIGHT_MARGIN) : 0;
	if (from > atomic_load(&r->first))
		atomic_store(&r->first, from);
	return RC_OK;
}

enum rc
flight_copy(const struct flight_source *s, struct buf *out, struct err *err)
{
	struct flight_header h;
	uint64_t backed, nbytes;
	uint32_t nrings, k = 0;
	char *to;
	enum rc rc = flight_read_header(s, &h, err);

	if (rc != RC_OK)
		return rc;
	backed = atomic_load(&h.backed);
	if (h.nrings < FLIGHT_RINGS_MAX)
		backed &= (UINT64_C(1) << h.nrings) - 1;
	nrings = backed ? (uint32_t)__builtin_popcountll(backed) : 1;
	nbytes = FLIGHT_AREA_BYTES(nrings, h.nrecords);
	if (!buf_reserve(out, nbytes))
		return err_set(err, RC_NOMEM, "out of memory");
	to = out->data + out->len;
	memset(to, 0, nbytes);
	for (uint32_t i = 0; i < h.nrings && rc == RC_OK; i++)
		if (backed >> i & 1)
			rc = copy_ring(s, &h, i, to + FLIGHT_RING_AT(k++, h.nrecords), err);
	if (rc != RC_OK)
		return rc;
	h.nrings = nrings;
	h.nbytes = nbytes;
	atomic_store(&h.backed, backed ? UINT64_MAX >> (FLIGHT_RINGS_MAX - nrings) : 0);
	memcpy(to, &h, sizeof h);
	out->len += nbytes;
	return RC_OK;
}

/* ---- texts */

/* Length of the UTF-8 character at s, of n bytes; 0: invalid, or a control character. */
static size_t
character(const unsigned char *s, size_t n)
{
	size_t len = s[0] < 0x80		   ? 1
		     : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
		     : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
		     : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
						   : 0;

	if (len == 0 || len > n || s[0] < ' ' || s[0] == 0x7f)
		return 0;
	for (size_t i = 1; i < len; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	return len;
}

void
flight_text(const union flight_record *r, size_t n, size_t i, char *out, size_t room)
{
	unsigned char all[FLIGHT_TEXTS_MAX * FLIGHT_TEXT_BYTES];
	size_t have = 0, at = 0, len;

	for (size_t k = 1; i + k < n && k <= r[i].mark.ntext && k <= FLIGHT_TEXTS_MAX &&
			   r[i + k].kind == FLIGHT_TEXT && r[i + k].text.n <= FLIGHT_TEXT_BYTES;
	     k++) {
		memcpy(all + have, r[i + k].text.text, r[i + k].text.n);
		have += r[i + k].text.n;
	}
	for (size_t k = 0; k < have; k += len ? len : 1) {
		len = character(all + k, have - k);
		if (at + (len ? len : 1) >= room)
			break;
		if (len)
			memcpy(out + at, all + k, len);
		else
			out[at] = '?';
		at += len ? len : 1;
	}
	if (room)
		out[at] = '\0';
}

/* ---- clocks */

#define BASELINE_NS \
	(200 * NS_PER_MS) /* of two moments that tell a rate better than the first guess */

void
flight_clock_of(const struct flight_header *h, struct flight_clock *out)
{
	double rate = 1e9 / (double)h->hz, seen;

	*out = (struct flight_clock){.ticks = h->last.ticks,
				     .wall_ns = h->last.wall_ns,
				     .ns_per_tick = rate,
				     .error_ns = h->error_ns};
	if (h->error_ns != UINT64_MAX)
		out->wall_ns += (uint64_t)h->offset_ns;
	if (flight_baseline_ns(h) < BASELINE_NS)
		return;
	seen = (double)flight_baseline_ns(h) / (double)(h->last.ticks - h->first.ticks + 1);
	if (seen > rate * 0.99 && seen < rate * 1.01)
		out->ns_per_tick = seen;
}

uint64_t
flight_time_ns(const struct flight_clock *c, uint64_t ticks)
{
	double away = ticks >= c->ticks ? (double)(ticks - c->ticks) : -(double)(c->ticks - ticks);
	double ns = away * c->ns_per_tick;

	if (ns < 0)
		return -ns < (double)c->wall_ns ? c->wall_ns - (uint64_t)-ns : 0;
	return ns < 9e18 ? c->wall_ns + (uint64_t)ns : UINT64_MAX;
}

/* ---- words */

#define WORD(table, i) ((i) < sizeof table / sizeof *table && table[i] ? table[i] : "?")

const char *
flight_kind_name(unsigned kind)
{
	static const char *const names[] = {
	    [FLIGHT_OP] = "operation",	[FLIGHT_WAIT] = "wait", [FLIGHT_STEP] = "step",
	    [FLIGHT_KERNEL] = "kernel", [FLIGHT_COPY] = "copy", [FLIGHT_PAUSE] = "pause",
	    [FLIGHT_MARK] = "mark",	[FLIGHT_TEXT] = "text", [FLIGHT_RANGE] = "range"};

	return WORD(names, kind);
}

const char *
flight_mark_name(unsigned what)
{
	static const char *const names[] = {
	    [FLIGHT_MARK_START] = "start",     [FLIGHT_MARK_END] = "end",
	    [FLIGHT_MARK_ATTACH] = "attach",   [FLIGHT_MARK_DETACH] = "detach",
	    [FLIGHT_MARK_ABORT] = "abort",     [FLIGHT_MARK_FAULT] = "fault",
	    [FLIGHT_MARK_NOMEM] = "no memory", [FLIGHT_MARK_LOST_RANK] = "lost rank",
	    [FLIGHT_MARK_GROUP] = "group",     [FLIGHT_MARK_REQUEST] = "request",
	    [FLIGHT_MARK_ANSWER] = "answer",   [FLIGHT_MARK_CALL] = "call",
	    [FLIGHT_MARK_RESULT] = "result",   [FLIGHT_MARK_DECISION] = "decision",
	    [FLIGHT_MARK_EVENT] = "event",     [FLIGHT_MARK_REPORT] = "report",
	    [FLIGHT_MARK_HEARD] = "heard"};

	return WORD(names, what);
}

const char *
flight_ring_name(unsigned kind)
{
	static const char *const names[] = {[FLIGHT_STREAM] = "stream",
					    [FLIGHT_QUEUE] = "queue",
					    [FLIGHT_TRANSFER] = "transfer",
					    [FLIGHT_SERVICE] = "service",
					    [FLIGHT_COORDINATOR] = "coordinator"};

	return WORD(names, kind);
}

const char *
flight_class_name(unsigned class)
{
	static const char *const names[] = {"1K", "32K", "1M", "32M", "1G", "inf"};

	return WORD(names, class);
}
