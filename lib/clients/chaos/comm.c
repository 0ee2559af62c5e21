/* The communicator that chaos works with, and its devices' memory. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "chaos/chaos_impl.h"

void
chaos_say(struct chaos *c, enum chaos_event event, const char *fmt, ...)
{
	char text[sizeof(struct err)];
	va_list ap;

	if (!c->cfg->say || (c->quiet && event != CHAOS_ALARM))
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	pthread_mutex_lock(&c->lock);
	c->cfg->say(c->cfg->arg, event, text);
	pthread_mutex_unlock(&c->lock);
}

struct chaos_slot *
chaos_slot_of(struct chaos *c, struct gpusim_device device)
{
	for (unsigned i = 0; i < c->nslots; i++)
		if (c->slot[i].device.id == device.id)
			return &c->slot[i];
	if (c->nslots == CHAOS_MAX_RANKS)
		return NULL;
	c->slot[c->nslots] = (struct chaos_slot){.device = device};
	return &c->slot[c->nslots++];
}

/* Get fresh buffers on a device; give the old ones back, if the device answers. */
static enum rc
furnish(struct chaos *c, struct gpusim_device device, struct err *err)
{
	struct chaos_slot *s = chaos_slot_of(c, device);
	enum rc rc;

	if (!s)
		return err_set(err, RC_FAILED, "more than %d devices", CHAOS_MAX_RANKS);
	if (s->send.addr && !s->stale)
		return RC_OK;
	if (s->send.addr)
		gpusim_free(c->side, device, s->send);
	if (s->recv.addr)
		gpusim_free(c->side, device, s->recv);
	s->send = s->recv = (struct gpusim_addr){0};
	rc = api(gpusim_malloc(c->side, device, CHAOS_BYTES, GPUSIM_LEASE, &s->send), err);
	if (rc == RC_OK)
		rc = api(gpusim_malloc(c->side, device, CHAOS_BYTES, GPUSIM_LEASE, &s->recv), err);
	s->stale = rc != RC_OK;
	return rc;
}

/* Take over a communicator as it is now. */
static void
take(struct chaos *c, struct gpusim_comm *comm)
{
	pthread_mutex_lock(&c->lock);
	gpusim_comm_free(c->comm);
	c->comm = comm;
	c->live = true;
	pthread_mutex_unlock(&c->lock);
}

enum rc
chaos_refresh(struct chaos *c, struct err *err)
{
	struct gpusim_comm *now = NULL;
	enum rc rc = api(gpusim_comm_open(c->g, gpusim_comm_id(c->comm), &now), err);

	if (rc != RC_OK)
		return rc;
	/* A spare that replaces a lost device has its memory. */
	for (uint32_t r = 0;
	     r < gpusim_comm_count(now) && gpusim_comm_count(now) == gpusim_comm_count(c->comm);
	     r++) {
		struct chaos_slot *old = chaos_slot_of(c, gpusim_comm_device(c->comm, r));
		struct chaos_slot *s = chaos_slot_of(c, gpusim_comm_device(now, r));

		if (!old || !s || old == s)
			continue;
		s->send = old->send;
		s->recv = old->recv;
		old->send = old->recv = (struct gpusim_addr){0};
	}
	take(c, now);
	return RC_OK;
}

void
chaos_drop(struct chaos *c)
{
	struct gpusim_comm *comm;

	if (!c->live)
		return;
	pthread_mutex_lock(&c->lock);
	c->live = false;
	comm = c->comm;
	c->comm = NULL;
	pthread_mutex_unlock(&c->lock);
	gpusim_comm_destroy(comm);
	for (unsigned i = 0; i < c->nslots; i++)
		c->slot[i].stale = true;
}

/* Return true if it still works. Without recovery the loss of a rank is only noticed by the next
 * operation. */
static bool
goes_on(struct chaos *c, struct err *err)
{
	enum gpusim_state state;

	if (c->cfg->comm.on_failure == GPUSIM_ON_FAILURE_ABORT)
		return false;
	if (api(gpusim_comm_status(c->comm, GPUSIM_SYNC, &state), err) != RC_OK)
		return false;
	if (state == GPUSIM_STATE_FAILED) {
		err_set(err, RC_FAILED, "%s", gpusim_error());
		return false;
	}
	return chaos_refresh(c, err) == RC_OK && gpusim_comm_count(c->comm) >= 2;
}

void
chaos_mend(struct chaos *c)
{
	struct err err = {0};

	if (goes_on(c, &err))
		return;
	if (err.text[0])
		chaos_say(c, CHAOS_DETAIL, "communicator %" PRIu64 " is given up: %s",
			  gpusim_comm_id(c->comm).id, err.text);
	chaos_drop(c);
}

/* The currently free devices, at most c->cfg->nranks; *n: their number; devices: room for them. */
static enum rc
find_free(struct chaos *c, struct gpusim_device *devices, uint32_t *n, struct err *err)
{
	struct gpusim_device_info *list;
	size_t ndevices;
	enum rc rc = api(gpusim_devices(c->side, &list, &ndevices), err);

	*n = 0;
	if (rc != RC_OK)
		return rc;
	for (size_t i = 0; i < ndevices && *n < c->cfg->nranks; i++)
		if (!list[i].lost && !list[i].spare && list[i].comm.id == 0)
			devices[(*n)++] = list[i].device;
	free(list);
	return RC_OK;
}

/* Return true if all ranks reach each other by memory. */
static void
look_at_paths(struct chaos *c)
{
	uint32_t n = gpusim_comm_count(c->comm);
	uint8_t path[CHAOS_MAX_RANKS * CHAOS_MAX_RANKS];

	c->by_memory = gpusim_comm_paths(c->comm, path) == GPUSIM_OK;
	for (uint32_t i = 0; i < n * n && c->by_memory; i++)
		c->by_memory = path[i] == GPUSIM_PATH_P2P;
}

enum rc
chaos_begin(struct chaos *c, struct err *err)
{
	struct gpusim_comm *comm = NULL;
	enum rc rc =
	    api(gpusim_comm_init_all(c->g, c->cfg->nranks, NULL, &c->cfg->comm, &comm), err);

	if (rc != RC_OK)
		return rc;
	take(c, comm);
	c->sum->ncomms++;
	for (uint32_t r = 0; r < gpusim_comm_count(comm) && rc == RC_OK; r++)
		rc = furnish(c, gpusim_comm_device(comm, r), err);
	if (rc == RC_OK)
		look_at_paths(c);
	else
		chaos_drop(c);
	return rc;
}

/* Make one over these devices, with memory on each. */
static enum rc
make(struct chaos *c, const struct gpusim_device *devices, uint32_t n, struct err *err)
{
	struct gpusim_comm *comm = NULL;
	enum rc rc = RC_OK;

	for (uint32_t i = 0; i < n && rc == RC_OK; i++)
		rc = furnish(c, devices[i], err);
	if (rc == RC_OK)
		rc = api(gpusim_comm_init_all(c->g, n, devices, &c->cfg->comm, &comm), err);
	if (rc != RC_OK)
		return rc;
	take(c, comm);
	c->sum->ncomms++;
	look_at_paths(c);
	return RC_OK;
}

enum rc
chaos_settle(struct chaos *c, struct err *err)
{
	struct gpusim_device devices[CHAOS_MAX_RANKS];
	uint64_t began = clock_now_ns(), now;
	struct err last = {0};
	uint32_t n;
	enum rc rc;

	if (c->live && gpusim_comm_count(c->comm) < c->cfg->nranks &&
	    find_free(c, devices, &n, err) == RC_OK && n > 0)
		chaos_drop(c); /* a device has come back */
	if (c->live && gpusim_comm_count(c->comm) < 2)
		chaos_drop(c);
	if (c->live)
		return RC_OK;
	for (;;) {
		now = clock_now_ns();
		rc = find_free(c, devices, &n, &last);
		if (rc == RC_OK &&
		    (n == c->cfg->nranks ||
		     (n >= 2 && now - began > CHAOS_RETURN_MS * NS_PER_MS)) &&
		    make(c, devices, n, &last) == RC_OK)
			return RC_OK;
		if (now - began > c->bound_ns)
			return err_set(err, RC_FAILED, "no two devices can work together%s%s",
				       last.rc == RC_OK ? "" : ": ", last.text);
		clock_sleep(CHAOS_POLL_MS * NS_PER_MS);
	}
}
