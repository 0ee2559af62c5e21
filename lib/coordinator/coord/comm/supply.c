/*
 * supply.c - devices for a communicator, by name or any free ones; if too few are free, the message names
 * their users.
 */
#include "coord/comm/comm_impl.h"

#include <inttypes.h>
#include <stdio.h>

void
label_set(struct label *l, const char *program, uint32_t pid)
{
	snprintf(l->program, sizeof l->program, "%.*s", (int)sizeof l->program - 1, program);
	l->pid = pid;
}

/* ---- choosing */

enum rc
choose_named(struct coord *c, const uint64_t *ids, size_t n, struct device **dev, struct err *err)
{
	for (size_t r = 0; r < n; r++) {
		for (size_t k = 0; k < r; k++)
			if (ids[k] == ids[r])
				return err_set(err, RC_INVAL,
					       "device %016" PRIx64
					       " is named twice, as rank %zu and rank %zu",
					       ids[r], k, r);
		if (device_named(c, ids[r], &dev[r], err) != RC_OK)
			return err->rc;
	}
	return RC_OK;
}

enum rc
choose_free(const struct coord *c, uint32_t n, struct device **dev, struct err *err)
{
	uint32_t nfree = 0;

	for (size_t i = 0; i < devices_count(c); i++)
		if (device_is_free(device_at(c, i)) && !device_is_spare(device_at(c, i))) {
			if (nfree < n)
				dev[nfree] = device_at(c, i);
			nfree++;
		}
	return nfree < n ? supply_short(c, n, nfree, err) : RC_OK;
}

/* ---- too few devices */

struct supply
supply_count(const struct coord *c)
{
	struct supply s = {0};

	for (size_t i = 0; i < devices_count(c); i++) {
		const struct device *d = device_at(c, i);

		s.all += !device_is_spare(d);
		s.alive += !device_is_spare(d) && !device_is_lost(d);
		s.free += !device_is_spare(d) && device_is_free(d);
		s.returning += !device_is_spare(d) && device_returns(c, d);
	}
	return s;
}

/* "gpuctl allreduce (pid 4711)" */
static void
add_label(struct text *t, const struct label *l)
{
	if (l->program[0])
		text_add(t, "%s (pid %u)", l->program, l->pid);
	else
		text_add(t, "a client");
}

static uint32_t
devices_of(const struct comm *comm)
{
	uint32_t n = 0;

	for (uint32_t r = 0; r < comm->nranks; r++)
		n += !device_is_spare(comm->rank[r].dev);
	return n;
}

/* "comm 3 of gpuctl allreduce (pid 4711) has 2", or when it will free them. */
static void
add_comm(struct text *t, const struct coord *c, const struct comm *comm, uint32_t n)
{
	uint64_t end = comm->gone_ms + TIME_LEASE_MS;

	bool told = comm->label.program[0] != '\0';

	text_add(t, "comm %" PRIu64, comm->id);
	if (told) {
		text_add(t, "%s ", comm->lease ? " of" : ", made by");
		add_label(t, &comm->label);
	}
	if (comm->state == COMM_DETACHING)
		text_add(t, ", which is about to end");
	else if (comm->lease && comm->gone)
		text_add(t, ", which disconnected: free in %.1f s",
			 end > c->now_ms ? (double)(end - c->now_ms) / 1e3 : 0.1);
	else
		text_add(t, "%s has %u", told && !comm->lease ? "," : "", n);
}

/* Add who has devices, and who waits for some. */
static void
add_users(struct text *t, const struct coord *c)
{
	uint32_t want;
	const struct label *first = queue_first(c, &want);
	const char *before = ": ";

	for (const struct comm *comm = c->comms->first; comm; comm = comm->next) {
		uint32_t n = devices_of(comm);

		if (n == 0)
			continue;
		if (t->room < 160) {
			text_add(t, ", ...");
			break;
		}
		text_add(t, "%s", before);
		add_comm(t, c, comm, n);
		before = ", ";
	}
	if (first) {
		text_add(t, "%s", before);
		add_label(t, first);
		text_add(t, " waits for %u", want);
	}
}

enum rc
supply_short(const struct coord *c, uint32_t want, uint32_t nfree, struct err *err)
{
	struct supply s = supply_count(c);
	struct text t = {err->text, sizeof err->text};

	text_add(&t, "%sneeds %u device%s; ", want <= s.alive ? "busy: " : "", want,
		 want == 1 ? "" : "s");
	if (want > s.all) {
		err->rc = RC_NOTFOUND;
		text_add(&t, "%u exist%s", s.all, s.all == 1 ? "s" : "");
	} else if (want > s.alive) {
		err->rc = RC_FAILED;
		text_add(&t, "%u of %u %s available", s.alive, s.all, s.alive == 1 ? "is" : "are");
		devices_name_lost(c, false, &t);
	} else {
		err->rc = RC_BUSY;
		text_add(&t, "%u of %u %s free", nfree, s.alive, nfree == 1 ? "is" : "are");
		add_users(&t, c);
		devices_name_lost(c, false, &t);
	}
	return err->rc;
}
