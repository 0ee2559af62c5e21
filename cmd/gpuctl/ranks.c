#include "ranks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/must.h"
#include "base/times.h"
#include "coll/parts.h"
#include "coll/plan.h"
#include "hold.h"
#include "mem/dtype.h"
#include "operation.h"
#include "recover.h"
#include "verify.h"

#define APART_ALIGN 64
#define FREE_MS	    500 /* longest wait for a device that frees memory */
#define TIMEOUT_MS \
	60000 /* unless --timeout: after the first failure, operations begin again for this long */
#define RETURN_MS (TIME_RESPAWN_MS + 1000) /* a device that is restarted */
#define POLL_MS	  20
#define ANEW_MOST 20 /* most new communicators for one operation */

bool
ranks_take_one(enum gpusim_coll coll)
{
	return coll == GPUSIM_BROADCAST || coll == GPUSIM_SCATTER;
}

void
results_fini(struct results *r)
{
	buf_fini(&r->data);
	free(r->v);
	*r = (struct results){0};
}

enum rc
ranks_init(struct ranks *r, struct cli *cli, enum gpusim_coll coll, const struct args *a,
	   struct err *err)
{
	enum rc rc;

	*r = (struct ranks){
	    .cli = cli, .a = a, .size = dtype_size(a->dtype), .takes_one = ranks_take_one(coll)};
	if (a->comm && args_given(a, on_failure))
		return err_set(err, RC_INVAL,
			       "--on-failure: only for a new communicator, not with --comm");
	if (a->comm && a->wait_ms)
		return err_set(err, RC_INVAL, "--wait: only for free devices, not with --comm");
	rc = operation_common(coll, a, PLAN_MAX_RANKS, &r->c, err);
	r->on_failure = a->on_failure;
	return rc == RC_OK ? verify_init(&r->c, a, err) : rc;
}

/* ---- after the loss of a device: may the operation begin again, and with which ranks? */

/* Reset to all ranks, each with its vector. */
static void
ranks_all(struct ranks *r)
{
	r->nleft = r->want;
	for (uint32_t i = 0; i < r->want; i++)
		r->vector[i] = i;
}

/* Reorder the arrays by rank: the present rank i was r->was[i]. */
static void
ranks_reorder(struct ranks *r)
{
	/* was[i] >= i, so no entry is overwritten before it is read. */
	for (uint32_t i = 0; i < gpusim_comm_count(r->comm); i++) {
		r->vector[i] = r->vector[r->was[i]];
		r->base[i] = r->base[r->was[i]];
		r->send[i] = r->send[r->was[i]];
		r->recv[i] = r->recv[r->was[i]];
	}
	for (uint32_t i = gpusim_comm_count(r->comm); i < r->nleft; i++)
		r->base[i].addr = 0;
	r->nleft = gpusim_comm_count(r->comm);
	hold_forget_memory();
	for (uint32_t i = 0; i < r->nleft; i++)
		if (r->base[i].addr)
			hold_remember(gpusim_comm_device(r->comm, i), r->base[i]);
}

/* The longest time of a call. */
static uint32_t
ranks_timeout_ms(const struct ranks *r)
{
	return r->cli->timeout_ms ? r->cli->timeout_ms : TIMEOUT_MS;
}

/* Free the memory on the devices. Where one does not answer soon, the lease ends by itself. */
static void
ranks_free_buffers(struct ranks *r)
{
	if (!r->base)
		return;
	gpusim_set_timeout_ms(r->cli->g, FREE_MS);
	for (uint32_t i = 0; i < gpusim_comm_count(r->comm); i++) {
		if (r->base[i].addr)
			gpusim_free(r->cli->g, gpusim_comm_device(r->comm, i), r->base[i]);
		r->base[i].addr = 0;
	}
	gpusim_set_timeout_ms(r->cli->g, ranks_timeout_ms(r));
	r->room_nelem = 0;
	hold_forget_memory();
}

/* Return true if the verb continues after the loss of a device. */
static bool
ranks_recover(const struct ranks *r)
{
	return r->a->comm || r->on_failure != GPUSIM_ON_FAILURE_ABORT;
}

/* Print the note of a recovery, unless it was the last one printed. */
static void
ranks_tell(struct ranks *r, const char *note)
{
	if (strcmp(note, r->told) != 0)
		log_line(LOG_ERROR, "note: %s", note);
	snprintf(r->told, sizeof r->told, "%s", note);
}

/* Begin an operation. */
static void
ranks_begin(struct ranks *r)
{
	r->again = r->anew = 0;
}

/* ---- the present devices */

struct census {
	struct gpusim_device_info *device;
	size_t n;
	uint32_t nfree, nlost, nspares; /* lost: without spares; spares: the free ones */
};

static bool
take_census(struct ranks *r, struct census *c)
{
	*c = (struct census){0};
	if (gpusim_devices(r->cli->g, &c->device, &c->n) != GPUSIM_OK)
		return false;
	for (size_t i = 0; i < c->n; i++) {
		const struct gpusim_device_info *d = &c->device[i];

		c->nlost += d->lost && !d->spare;
		if (d->lost || d->comm.id)
			continue;
		c->nspares += d->spare != 0;
		c->nfree += !d->spare;
	}
	return true;
}

static const struct gpusim_device_info *
find(const struct census *c, struct gpusim_device device)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->device[i].device.id == device.id)
			return &c->device[i];
	return NULL;
}

static bool
has_lost(const struct census *c, struct gpusim_comm *comm)
{
	for (uint32_t i = 0; i < gpusim_comm_count(comm); i++) {
		const struct gpusim_device_info *d = find(c, gpusim_comm_device(comm, i));

		if (!d || d->lost || d->pid != gpusim_comm_device_info(comm, i)->pid)
			return true;
	}
	return false;
}

/* ---- making the communicator */

/* Remember the devices that will be taken, unless another client is faster: if one is lost from now on, a
 * rank is lost. */
static void
expect(struct ranks *r)
{
	struct census c;
	uint32_t n = 0;

	if (!take_census(r, &c))
		return;
	for (size_t i = 0; i < c.n && n < r->nleft; i++)
		if (!c.device[i].lost && !c.device[i].comm.id && !c.device[i].spare)
			r->device[n++] = c.device[i].device;
	while (n < r->nleft)
		r->device[n++].id = 0;
	free(c.device);
}

/* Make a communicator of r->nleft ranks, leased. */
static enum rc
ranks_lease(struct ranks *r, struct err *err)
{
	if (r->on_failure == GPUSIM_ON_FAILURE_SHRINK)
		expect(r);
	return cli_lease_comm(r->cli, r->a, r->nleft, r->what, &r->comm, err);
}

/* shrink: leave out the ranks whose devices were lost while the communicator was made. Return their
 * number. */
static uint32_t
leave_out(struct ranks *r, const struct census *c)
{
	uint32_t n = 0, nlost;

	for (uint32_t i = 0; i < r->nleft; i++) {
		const struct gpusim_device_info *d = r->device[i].id ? find(c, r->device[i]) : NULL;

		if (d && d->lost)
			log_line(LOG_ERROR,
				 "note: rank %" PRIu32 " (device %016" PRIx64
				 ") was lost before the communicator was created; shrink",
				 r->vector[i], d->device.id);
		else
			r->vector[n++] = r->vector[i];
	}
	nlost = r->nleft - n;
	r->nleft = n;
	return nlost;
}

/* Return 1 if there are enough devices for the ranks, -1: not yet, 0: never. */
static int
is_possible(struct ranks *r, const struct census *c)
{
	switch (r->on_failure) {
	case GPUSIM_ON_FAILURE_SHRINK:
		return c->nfree >= r->nleft || (leave_out(r, c) && r->nleft);
	case GPUSIM_ON_FAILURE_RESPAWN:
		return c->nfree >= r->nleft ? 1 : c->nlost ? -1 : 0;
	case GPUSIM_ON_FAILURE_SPARE:
		return c->nfree >= r->nleft ? 1 : c->nlost && c->nspares ? -1 : 0;
	default:
		return 0;
	}
}

static bool
wait_for_devices(struct ranks *r)
{
	uint64_t return_ns = deadline_in_ms(RETURN_MS);
	struct census c;
	int possible;

	do {
		clock_sleep(POLL_MS * NS_PER_MS);
		if (!take_census(r, &c))
			return false;
		possible = is_possible(r, &c);
		free(c.device);
	} while (possible < 0 && deadline_left_ms(return_ns) && deadline_left_ms(r->until_ns));
	return possible > 0;
}

/* ---- deciding */

static bool
may_be_loss(enum rc rc)
{
	return rc == RC_UNREACHABLE || rc == RC_TIMEOUT || rc == RC_ABORTED || rc == RC_RECOVERED;
}

/* Return true for failures after which making a communicator may succeed a moment later. */
static bool
may_pass(enum rc rc)
{
	return may_be_loss(rc) || rc == RC_FAILED || rc == RC_BUSY || rc == RC_NOTFOUND;
}

/* The communicator has failed permanently: release it, and return true if another may be made. */
static bool
give_up_comm(struct ranks *r, enum rc rc)
{
	bool whole =
	    r->on_failure == GPUSIM_ON_FAILURE_RESPAWN || r->on_failure == GPUSIM_ON_FAILURE_SPARE;
	struct census c;
	bool lost;

	if (r->a->comm || !whole || !take_census(r, &c))
		return false;
	lost = may_be_loss(rc) || has_lost(&c, r->comm);
	free(c.device);
	if (!lost)
		return false;
	ranks_free_buffers(r);
	hold_release(r->cli, r->comm);
	gpusim_set_timeout_ms(r->cli->g, ranks_timeout_ms(r));
	r->comm = NULL;
	ranks_all(r);
	return true;
}

/* Continue with the recovered communicator, or a new one. */
static bool
find_way(struct ranks *r, enum rc rc, struct err *err)
{
	const struct err why = *err;

	if (r->comm) {
		if (recover(r->cli, &r->comm, r->was, rc, err) == RC_OK) {
			ranks_reorder(r);
			ranks_free_buffers(r);
			return true;
		}
		if (!give_up_comm(r, rc))
			return false;
	} else if (!may_pass(rc)) {
		return false;
	}
	if (r->anew++ == ANEW_MOST || !wait_for_devices(r))
		return false;
	ranks_tell(r, why.text);
	*err = (struct err){0};
	return true;
}

/*
 * Decide if work that failed with rc may begin again. True: *err is empty, and a communicator exists, or
 * ranks_lease will make one. False: *err is the verb's failure.
 */
static bool
ranks_again(struct ranks *r, enum rc rc, struct err *err)
{
	if (!ranks_recover(r) || rc == RC_BADDATA)
		return false;
	if (r->again == 0)
		r->until_ns = deadline_in_ms(ranks_timeout_ms(r));
	if (r->again++ == RECOVER_MOST || !deadline_left_ms(r->until_ns))
		return false;
	return find_way(r, rc, err);
}

/* ---- the communicator */

/* Allocate arrays by rank: there are never more ranks than at first. */
static void
make_room(struct ranks *r, uint32_t n)
{
	r->vector = must_alloc(n, sizeof *r->vector);
	r->was = must_alloc(n, sizeof *r->was);
	r->device = must_alloc(n, sizeof *r->device);
	r->base = must_alloc(n, sizeof *r->base);
	r->send = must_alloc(n, sizeof *r->send);
	r->recv = must_alloc(n, sizeof *r->recv);
	r->want = n;
	ranks_all(r);
}

static enum rc
open_comm(struct ranks *r, uint32_t n, const char *what, struct err *err)
{
	uint64_t id = r->a->comm;
	enum rc rc = cli_comm(r->cli, id, &r->comm, err);

	if (rc != RC_OK)
		return rc;
	if (n && n != gpusim_comm_count(r->comm))
		return err_set(err, r->a->nranks ? RC_INVAL : RC_BADDATA,
			       "%s, but communicator %" PRIu64 " has %" PRIu32 " ranks", what, id,
			       gpusim_comm_count(r->comm));
	make_room(r, gpusim_comm_count(r->comm));
	return RC_OK;
}

static enum rc
take_factors(struct ranks *r, struct err *err)
{
	enum rc rc = operation_scalars(&r->c, r->a, r->want, &r->factor, err);

	if (rc != RC_OK || !r->factor)
		return rc;
	r->c.scalar = r->scalar = must_alloc(r->want, r->size);
	return RC_OK;
}

enum rc
ranks_take(struct ranks *r, uint32_t n, const char *what, struct err *err)
{
	enum rc rc = cli_open(r->cli, err);

	snprintf(r->what, sizeof r->what, "%s", what);
	if (rc == RC_OK && r->a->comm)
		rc = open_comm(r, n, what, err);
	else if (rc == RC_OK)
		make_room(r, n);
	if (rc == RC_OK && !r->comm)
		rc = ranks_lease(r, err);
	ranks_begin(r);
	while (rc != RC_OK && r->vector && ranks_again(r, rc, err))
		rc = ranks_lease(r, err);
	if (rc == RC_OK)
		rc = operation_common(r->c.coll, r->a, r->want, &r->c, err);
	if (rc == RC_OK)
		rc = verify_init(&r->c, r->a, err);
	return rc == RC_OK ? take_factors(r, err) : rc;
}

/* ---- memory */

static enum rc
find_root(struct ranks *r, struct err *err)
{
	uint32_t i = 0;

	if (!coll_has_root(r->c.coll))
		return RC_OK;
	while (i < gpusim_comm_count(r->comm) && r->vector[i] != r->a->root)
		i++;
	if (i == gpusim_comm_count(r->comm))
		return err_set(err, RC_ABORTED,
			       "comm %" PRIu64 ": the root, rank %" PRIu32 ", was lost",
			       gpusim_comm_id(r->comm).id, r->a->root);
	r->c.root = i;
	return RC_OK;
}

/* Set the counts for the present ranks. The vector of a lost rank is missing in a joined result; but a part
 * from or to a lost rank has no place. */
static enum rc
set_counts(struct ranks *r, struct err *err)
{
	uint32_t n = gpusim_comm_count(r->comm);
	bool joins = r->c.coll == GPUSIM_ALLGATHER || r->c.coll == GPUSIM_GATHER;
	size_t ncounts = r->c.coll == GPUSIM_ALLTOALL ? (size_t)n * n : n;

	if (n != r->want && !joins)
		return err_set(err, RC_ABORTED,
			       "comm %" PRIu64 ": the counts are for %" PRIu32
			       " ranks, but %" PRIu32 " are left",
			       gpusim_comm_id(r->comm).id, r->want, n);
	if (!r->now)
		r->now = must_alloc(ncounts, sizeof *r->now);
	for (size_t i = 0; i < ncounts; i++)
		r->now[i] = joins ? r->counts[r->vector[i]] : r->counts[i];
	free(r->parts);
	r->all = (struct plan_args){.coll = r->c.coll, .nranks = n, .root = r->c.root};
	r->c.counts = r->now;
	return parts_take_all(&r->all, r->now, NULL, NULL, &r->parts, err);
}

static enum rc
set_nelem(struct ranks *r, uint64_t nelem, struct err *err)
{
	bool parts = r->c.coll == GPUSIM_ALLGATHER || r->c.coll == GPUSIM_GATHER;
	uint32_t n = gpusim_comm_count(r->comm);

	if (r->counts)
		return set_counts(r, err);
	r->c.nelem = parts ? nelem * n : nelem;
	if (r->c.coll == GPUSIM_ALLTOALL && nelem % n)
		return err_set(err, RC_BADDATA,
			       "%" PRIu64 " elements in a vector cannot be divided by %" PRIu32
			       " ranks",
			       nelem, n);
	return RC_OK;
}

/* With --verify the result does not overwrite the input: the offset of the result. */
static uint64_t
apart_at(const struct ranks *r, uint64_t whole)
{
	return (whole * r->size + APART_ALIGN - 1) / APART_ALIGN * APART_ALIGN;
}

/* Make buffers on the devices, or reuse those of the last operation. */
static enum rc
make_buffers(struct ranks *r, uint64_t nelem, struct err *err)
{
	uint32_t n = gpusim_comm_count(r->comm);
	bool enough = nelem <= r->room_nelem;
	enum rc rc = RC_OK;

	if (!enough && r->room_nelem)
		ranks_free_buffers(r);
	for (uint32_t i = 0; i < n && rc == RC_OK; i++) {
		struct shape s = ranks_shape(r, i);

		uint64_t apart = r->a->verify ? apart_at(r, s.whole) : 0;

		if (!enough && s.whole)
			rc = hold_memory(r->cli, gpusim_comm_device(r->comm, i),
					 (apart ? apart + s.out * r->size : s.whole * r->size),
					 &r->base[i], err);
		r->send[i].addr = s.in ? r->base[i].addr + s.in_at * r->size : 0;
		r->recv[i].addr =
		    s.out ? r->base[i].addr + (apart ? apart : s.out_at * r->size) : 0;
	}
	if (rc == RC_OK && !enough)
		r->room_nelem = nelem;
	r->c.send = r->send;
	r->c.recv = r->recv;
	return rc;
}

/* ---- the data */

static enum rc
upload(struct ranks *r, const char *data, uint64_t nelem, struct err *err)
{
	enum rc rc = RC_OK;

	for (uint32_t i = 0; i < gpusim_comm_count(r->comm) && rc == RC_OK; i++) {
		uint32_t v = r->takes_one ? 0 : r->vector[i];
		uint64_t at = r->begin ? r->begin[v] : v * nelem;
		uint64_t n = r->begin ? r->begin[v + 1] - at : nelem;

		if (r->send[i].addr && n)
			rc = api(gpusim_memcpy_h2d(r->cli->g, gpusim_comm_device(r->comm, i),
						   r->send[i], data + at * r->size, n * r->size),
				 err);
	}
	return rc;
}

static bool
prints(const struct ranks *r, uint32_t rank)
{
	bool at_root = coll_has_root(r->c.coll) ? rank == r->c.root : rank == 0;

	switch (r->c.coll) {
	case GPUSIM_BARRIER:
		return false;
	case GPUSIM_REDUCESCATTER:
	case GPUSIM_SCATTER:
	case GPUSIM_ALLTOALL:
		return true;
	case GPUSIM_REDUCE:
	case GPUSIM_GATHER:
		return at_root;
	default:
		return at_root || r->a->all;
	}
}

/* Store the last result only once if it equals the first one. Where all ranks must have the same result,
 * report a rank that has a different one. */
static void
share_place(struct ranks *r, uint32_t rank, struct results *out)
{
	const struct result *first = &out->v[0];
	struct result *last = &out->v[out->n - 1];
	size_t nbytes = last->nelem * r->size;

	if (first == last || first->nelem != last->nelem || nbytes == 0)
		return;
	if (memcmp(out->data.data + first->at, out->data.data + last->at, nbytes) == 0) {
		last->at = first->at;
		out->data.len -= nbytes;
	} else if (r->c.coll == GPUSIM_ALLREDUCE || r->c.coll == GPUSIM_ALLGATHER ||
		   r->c.coll == GPUSIM_BROADCAST) {
		log_line(LOG_ERROR,
			 "note: comm %" PRIu64 ": rank %" PRIu32 " has a different result",
			 gpusim_comm_id(r->comm).id, rank);
	}
}

static enum rc
download_rank(struct ranks *r, uint32_t rank, struct results *out, struct err *err)
{
	uint64_t nelem = ranks_shape(r, rank).out;
	size_t nbytes = nelem * r->size;
	enum rc rc = RC_OK;

	must_reserve(&out->data, nbytes);
	out->v[out->n++] = (struct result){out->data.len, nelem};
	if (nbytes)
		rc =
		    api(gpusim_memcpy_d2h(r->cli->g, out->data.data + out->data.len,
					  gpusim_comm_device(r->comm, rank), r->recv[rank], nbytes),
			err);
	if (rc != RC_OK)
		return rc;
	out->data.len += nbytes;
	share_place(r, rank, out);
	return RC_OK;
}

static enum rc
download(struct ranks *r, struct buf *spent, struct results *out, struct err *err)
{
	enum rc rc = RC_OK;

	if (spent && !ranks_recover(r)) {
		buf_fini(&out->data);
		out->data = *spent;
		*spent = (struct buf){0};
	}
	out->data.len = out->n = 0;
	if (!out->v)
		out->v = must_alloc(r->want, sizeof *out->v);
	for (uint32_t i = 0; i < gpusim_comm_count(r->comm) && rc == RC_OK; i++)
		if (prints(r, i))
			rc = download_rank(r, i, out, err);
	return rc;
}

/* ---- the operation */

/* The collective has succeeded: find its results, if it recovered with other devices. With fewer ranks the
 * parts of a vector have other sizes and places: then RC_RECOVERED, to begin again with the vectors that
 * are left. */
static enum rc
follow(struct ranks *r, struct err *err)
{
	bool whole = r->c.coll == GPUSIM_ALLREDUCE || r->c.coll == GPUSIM_REDUCE ||
		     r->c.coll == GPUSIM_BROADCAST || r->c.coll == GPUSIM_BARRIER;
	uint32_t before = gpusim_comm_count(r->comm);
	char note[sizeof err->text];
	enum rc rc;

	snprintf(note, sizeof note, "%s", gpusim_note());
	if (!*note)
		return RC_OK;
	rc = recover_refresh(r->cli, &r->comm, r->was, err);
	if (rc != RC_OK)
		return rc;
	ranks_reorder(r);
	if (gpusim_comm_count(r->comm) != before && !whole)
		return err_set(err, RC_RECOVERED, "%s", note);
	ranks_tell(r, note);
	return find_root(r, err);
}

static enum rc
do_once(struct ranks *r, const char *data, uint64_t nelem, struct buf *spent, struct results *out,
	struct err *err)
{
	enum rc rc = r->comm ? RC_OK : ranks_lease(r, err);

	if (rc == RC_OK)
		rc = find_root(r, err);
	if (rc == RC_OK)
		rc = set_nelem(r, nelem, err);
	if (rc == RC_OK) {
		for (uint32_t i = 0; r->factor && i < gpusim_comm_count(r->comm); i++)
			memcpy((char *)r->scalar + i * r->size,
			       (const char *)r->factor + r->vector[i] * r->size, r->size);
	}
	if (rc == RC_OK)
		rc = make_buffers(r, nelem, err);
	if (rc == RC_OK)
		rc = upload(r, data, nelem, err);
	if (rc == RC_OK)
		rc = api(gpusim_collective(r->comm, &r->c, GPUSIM_SYNC), err);
	if (rc == RC_OK)
		rc = follow(r, err);
	if (rc == RC_OK && r->a->verify && nelem)
		rc = verify_ranks(r, data, r->begin ? r->begin[1] : nelem, err);
	return rc == RC_OK ? download(r, spent, out, err) : rc;
}

enum rc
ranks_do(struct ranks *r, const char *data, uint64_t nelem, struct buf *spent, struct results *out,
	 struct err *err)
{
	enum rc rc;

	ranks_begin(r);
	do
		rc = do_once(r, data, nelem, spent, out, err);
	while (rc != RC_OK && ranks_again(r, rc, err));
	return rc;
}

void
ranks_release(struct ranks *r, enum rc rc)
{
	if (rc != RC_UNREACHABLE && rc != RC_TIMEOUT && rc != RC_ABORTED)
		ranks_free_buffers(r);
	hold_release(r->cli, r->comm);
	free(r->now);
	free(r->parts);
	free(r->vector);
	free(r->was);
	free(r->device);
	free(r->base);
	free(r->send);
	free(r->recv);
	free(r->factor);
	free(r->scalar);
	*r = (struct ranks){.cli = r->cli};
}
