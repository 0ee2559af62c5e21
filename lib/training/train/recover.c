/*
 * Resumes training after a device was lost or has joined.
 *
 * At the start of a unit every device makes a copy of the values that training changes; so when a unit
 * fails, each survivor has the whole state of its start. There are two such copies, and the host relies on
 * one only when all ranks have it. A stamp, written last, identifies a replica's memory: a device
 * that came back with its memory has the stamp; a replacement without that memory does not, and
 * gets everything again.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/must.h"
#include "train/trainer_impl.h"

#define USABLE_MS 30000 /* fixed: a restarted device comes back within 10 s, see gpucoord(8) */
#define BLAME_MS  5000	/* fixed: until the coordinator has noticed that a device is lost */

/* ---- its members */

/* Room for n ranks; returns a new, zeroed list of replicas. */
static struct replica *
make_room(struct trainer *t, uint32_t n)
{
	t->addrs = must_resize(t->addrs, n, sizeof *t->addrs);
	t->totals = must_resize(t->totals, n, sizeof *t->totals);
	t->times = must_resize(t->times, n, sizeof *t->times);
	t->places = must_resize(t->places, n, sizeof *t->places);
	t->targets = must_resize(t->targets, n, sizeof *t->targets);
	t->rows = must_resize(t->rows, n, sizeof *t->rows);
	return must_alloc(n, sizeof(struct replica));
}

/* The known state of a device's replica: its own; or, if it replaces a device, that device's, whose
 * memory it may have. */
static struct replica
inherit(const struct trainer *t, struct gpusim_comm *now, uint32_t rank)
{
	struct gpusim_device device = gpusim_comm_device(now, rank);
	struct replica r = {.device = device};

	for (uint32_t q = 0; q < gpusim_comm_count(t->comm); q++)
		if (t->replica && gpusim_comm_device(t->comm, q).id == device.id)
			return t->replica[q];
	if (t->replica && gpusim_comm_count(now) == gpusim_comm_count(t->comm))
		r = t->replica[rank];
	r.device = device;
	r.owned = false;
	return r;
}

/* Take the communicator as it is now. */
static enum rc
adopt_members(struct trainer *t, struct err *err)
{
	struct gpusim_comm *now;
	struct replica *replicas;
	enum rc rc = api(gpusim_comm_open(t->g, gpusim_comm_id(t->comm), &now), err);

	if (rc != RC_OK)
		return rc;
	replicas = make_room(t, gpusim_comm_count(now));
	for (uint32_t r = 0; r < gpusim_comm_count(now); r++)
		replicas[r] = inherit(t, now, r);
	free(t->replica);
	t->replica = replicas;
	gpusim_comm_free(t->comm);
	t->comm = now;
	gpusim_close(t->stale);
	t->stale = NULL;
	return RC_OK;
}

void
members_begin(struct trainer *t)
{
	t->replica = make_room(t, gpusim_comm_count(t->comm));
	for (uint32_t r = 0; r < gpusim_comm_count(t->comm); r++)
		t->replica[r].device = gpusim_comm_device(t->comm, r);
}

/* ---- the devices' state */

/* Find out whether a device has the replica's memory. Errors: the device cannot be called. */
static enum rc
has_memory(struct trainer *t, uint32_t rank, bool *has, struct err *err)
{
	struct replica *r = &t->replica[rank];
	uint64_t stamp = 0;
	enum rc rc;

	*has = false;
	if (!r->stamp)
		return RC_OK;
	rc = device_read(t->g, &stamp, r->device, r->stamp, sizeof stamp, err);
	*has = rc == RC_OK && stamp == t->nonce;
	r->owned |= *has;
	return rc == RC_UNREACHABLE || rc == RC_TIMEOUT || rc == RC_ABORTED ? rc : RC_OK;
}

static enum rc
stamp(struct trainer *t, uint32_t rank, struct err *err)
{
	const struct replica *r = &t->replica[rank];

	if (!r->stamp)
		return RC_OK;
	return device_write(t->g, r->device, r->stamp, &t->nonce, sizeof t->nonce, err);
}

/* Load everything from the host's copy. */
static enum rc
rebuild_all(struct trainer *t, struct err *err)
{
	enum rc rc;

	t->kept.any = false;
	rc = place_all(t, err);
	if (rc == RC_OK)
		rc = weights_load(t, err);
	for (uint32_t r = 0; rc == RC_OK && r < gpusim_comm_count(t->comm); r++)
		rc = stamp(t, r, err);
	if (rc == RC_OK)
		t->at = t->host_at;
	return rc;
}

/* Set up one rank again, with what all ranks have alike of another's kept copy; what is a rank's own begins as
 * zeros. */
static enum rc
rebuild_rank(struct trainer *t, uint32_t rank, uint32_t from, struct err *err)
{
	const struct replica *to = &t->replica[rank], *of = &t->replica[from];
	unsigned k = t->kept.which;
	enum rc rc = place_one(t, rank, err);

	if (rc == RC_OK)
		rc = device_copy(t->g, to->device, to->kept[k], of->device, of->kept[k],
				 replica_shared_bytes(of), err);
	return rc == RC_OK ? stamp(t, rank, err) : rc;
}

/* Run a list of copies on every rank. */
static enum rc
copy_kept(struct trainer *t,
	  void (*add)(struct gpusim_ops *o, uint32_t rank, const struct replica *r, unsigned which),
	  unsigned which, struct err *err)
{
	struct gpusim_ops *o = gpusim_ops_new(gpusim_comm_count(t->comm));
	enum rc rc;

	for (uint32_t r = 0; r < gpusim_comm_count(t->comm); r++)
		add(o, r, &t->replica[r], which);
	rc = api(gpusim_submit(t->comm, o, GPUSIM_SYNC, NULL), err);
	gpusim_ops_free(o);
	return rc;
}

/* Restore the kept copy on all ranks; rank `whole` has it. */
static enum rc
rebuild_some(struct trainer *t, const bool *has, uint32_t whole, struct err *err)
{
	enum rc rc = RC_OK;

	for (uint32_t r = 0; r < gpusim_comm_count(t->comm) && rc == RC_OK; r++)
		if (!has[r])
			rc = rebuild_rank(t, r, whole, err);
	if (rc == RC_OK)
		rc = copy_kept(t, replica_restore, t->kept.which, err);
	if (rc == RC_OK)
		t->at = t->kept.at;
	return rc;
}

/* has[0..n) [out]: whether each rank has its memory; *whole: a rank that has it, or n. */
static enum rc
look(struct trainer *t, bool *has, uint32_t *whole, uint32_t *nhave, struct err *err)
{
	uint32_t n = gpusim_comm_count(t->comm);
	enum rc rc = RC_OK;

	*whole = n;
	*nhave = 0;
	for (uint32_t r = n; r-- > 0 && rc == RC_OK;) {
		rc = has_memory(t, r, &has[r], err);
		if (!has[r])
			continue;
		*whole = r;
		(*nhave)++;
	}
	return rc;
}

/* The batches of a tested part: the whole batches that every device has, and the most further
 * batches of any device. */
static void
divide_tests(struct trainer *t, unsigned part)
{
	uint64_t rows = test_rows(t), least = UINT64_MAX, most = 0;
	uint32_t n = gpusim_comm_count(t->comm);

	for (uint32_t r = 0; r < n; r++) {
		uint64_t items = tested_by(t, part, r);

		least = items < least ? items : least;
		most = items > most ? items : most;
	}
	t->tests[part].full = least / rows;
	t->tests[part].more = (most - least / rows * rows + rows - 1) / rows;
}

enum rc
rebuild(struct trainer *t, bool scratch, struct err *err)
{
	uint32_t n = gpusim_comm_count(t->comm), whole = n, nhave = 0;
	bool *has = must_alloc(n, sizeof *has), all;
	enum rc rc = RC_OK;

	if (t->kept.any)
		rc = look(t, has, &whole, &nhave, err);
	all = whole == n || scratch || !shape_fits(t);
	if (rc == RC_OK && all && whole < n)
		rc =
		    weights_fetch(t, whole, t->replica[whole].kept[t->kept.which], t->kept.at, err);
	if (rc == RC_OK)
		rc = all ? rebuild_all(t, err) : rebuild_some(t, has, whole, err);
	free(has);
	if (rc == RC_OK && (all || nhave < n || t->planned != n)) {
		t->planned = 0;
		t->fed = 0;
		for (unsigned p = 0; p < NTESTS; p++)
			divide_tests(t, p);
		rc = upload_tests(t, err);
	}
	if (rc == RC_OK) {
		t->planned = n;
		forget_graphs(t);
		rc = record_graphs(t, err);
	}
	return rc;
}

/* ---- between units */

enum rc
keep(struct trainer *t, struct err *err)
{
	unsigned other = t->kept.any ? !t->kept.which : 0;
	enum rc rc;

	if (t->spread)
		return t->host_at.epoch == t->at.epoch && t->host_at.step == t->at.step
			   ? RC_OK
			   : weights_keep(t, err);

	if (t->kept.any && t->kept.at.epoch == t->at.epoch && t->kept.at.step == t->at.step)
		return RC_OK;
	rc = copy_kept(t, replica_keep, other, err);
	if (rc == RC_OK)
		rc = check_members(t, err);
	if (rc == RC_OK)
		t->kept = (struct kept){true, other, t->at};
	return rc;
}

/* Find devices that offer themselves and have enough memory; returns their number. */
static uint32_t
find_joining(const struct trainer *t, const struct gpusim_device_info *list, size_t n,
	     struct gpusim_device *devices, uint32_t max)
{
	uint64_t bytes = replica_bytes(&t->shape);
	uint32_t found = 0;

	for (size_t i = 0; i < n && found < max; i++) {
		const struct gpusim_device_info *d = &list[i];

		if (d->join && !d->spare && !d->lost && d->comm.id == 0 &&
		    d->device.id != t->refused.id && d->max_addr.addr - d->min_addr.addr >= bytes)
			devices[found++] = d->device;
	}
	return found;
}

static void
say_joined(const struct trainer *t, uint32_t before, double ms)
{
	char text[256];

	snprintf(text, sizeof text, "epoch %u: %u device%s joined, %u now: %.0f ms",
		 t->at.epoch + 1, gpusim_comm_count(t->comm) - before,
		 gpusim_comm_count(t->comm) - before == 1 ? "" : "s", gpusim_comm_count(t->comm),
		 ms);
	if (t->hooks.event)
		t->hooks.event(t->hooks.arg, text);
}

enum rc
take_in(struct trainer *t, struct err *err)
{
	struct gpusim_device devices[16];
	uint64_t began = clock_now_ns();
	uint32_t found, before = gpusim_comm_count(t->comm);
	struct gpusim_device_info *list;
	size_t n;
	enum rc rc = api(gpusim_devices(t->g, &list, &n), err);

	if (rc != RC_OK)
		return rc;
	found = find_joining(t, list, n, devices, sizeof devices / sizeof *devices);
	free(list);
	if (found == 0)
		return RC_OK;
	if (gpusim_comm_grow(t->comm, found, devices, 0, NULL) != GPUSIM_OK) {
		/* If the failure is not this device's alone, the unit will also fail. */
		t->refused = devices[0];
		return RC_OK;
	}
	rc = adopt_members(t, err);
	if (rc == RC_OK)
		rc = rebuild(t, false, err);
	if (rc == RC_OK)
		say_joined(t, before, (double)(clock_now_ns() - began) / 1e6);
	return rc;
}

/* ---- after a failure */

/* Wait until nothing is in progress and the communicator has not failed. *over [out]: waiting
 * longer is useless. */
static enum rc
wait_usable(struct trainer *t, bool *over, struct err *err)
{
	enum gpusim_state state;
	enum rc rc;

	gpusim_set_timeout_ms(t->g, USABLE_MS);
	rc = api(gpusim_comm_status(t->comm, GPUSIM_SYNC, &state), err);
	*over = rc == RC_UNREACHABLE || rc == RC_NOTFOUND;
	if (rc == RC_OK && state == GPUSIM_STATE_FAILED) {
		*over = true;
		rc = err_set(err, RC_FAILED, "%s", gpusim_error());
	}
	return rc;
}

enum rc
name_lost(struct trainer *t, enum rc rc, struct err *err)
{
	const struct gpusim_collective barrier = {GPUSIM_COLLECTIVE_INIT, .coll = GPUSIM_BARRIER};
	enum gpusim_state state;

	if (rc != RC_UNREACHABLE)
		return rc;
	gpusim_set_timeout_ms(t->g, BLAME_MS);
	gpusim_collective(t->comm, &barrier, GPUSIM_SYNC);
	if (gpusim_comm_status(t->comm, GPUSIM_ASYNC, &state) == GPUSIM_OK &&
	    state == GPUSIM_STATE_FAILED)
		err_set(err, rc, "%s", gpusim_error());
	gpusim_set_timeout_ms(t->g, CALL_MS);
	return rc;
}

/* The communicator is usable, but one of its devices cannot be called: connect again, as another
 * client, which does not own the old leases. The communicator stays leased to the client that the
 * caller gave, which stays open. */
static void
connect_anew(struct trainer *t)
{
	struct gpusim *g;

	if (gpusim_open(NULL, &g) != GPUSIM_OK)
		return;
	gpusim_set_away_ms(g, TASK_AWAY_MS);
	if (t->stale)
		gpusim_close(t->fresh);
	else
		t->stale = t->fresh; /* the communicator may belong to it */
	t->fresh = t->g = g;
	t->distrust = true;
}

enum rc
recover(struct trainer *t, bool scratch, struct trouble *trouble, struct err *err)
{
	uint32_t epoch = gpusim_comm_epoch(t->comm);
	uint64_t usable;
	struct err why = *err;
	enum rc rc = wait_usable(t, &trouble->over, err);

	snprintf(trouble->what, sizeof trouble->what, "%s", rc == RC_OK ? gpusim_note() : "");
	usable = clock_now_ns();
	if (rc == RC_OK)
		rc = adopt_members(t, err);
	if (rc == RC_OK && (gpusim_comm_epoch(t->comm) == epoch || !trouble->what[0]))
		snprintf(trouble->what, sizeof trouble->what, "%s", why.text);
	gpusim_set_timeout_ms(t->g, CALL_MS);
	if (rc == RC_OK)
		rc = rebuild(t, scratch || t->distrust, err);
	if (rc == RC_OK)
		t->distrust = false;
	if (rc == RC_UNREACHABLE) {
		name_lost(t, rc, err);
		connect_anew(t);
	}
	trouble->rebuilt_ns = clock_now_ns();
	trouble->rebuild_ms = (double)(trouble->rebuilt_ns - usable) / 1e6;
	return rc;
}
