/* After the loss of a device: decide if the operation may begin again, and with which ranks. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/times.h"
#include "hold.h"
#include "ranks_impl.h"
#include "recover.h"

#define TIMEOUT_MS \
	60000 /* unless --timeout: after the first failure, operations begin again for this long */
#define RETURN_MS (TIME_RESPAWN_MS + 1000) /* a device that is restarted */
#define POLL_MS	  20
#define ANEW_MOST 20 /* most new communicators for one operation */

bool
ranks_recover(const struct ranks *r)
{
	return r->a->comm || r->on_failure != GPUSIM_ON_FAILURE_ABORT;
}

uint32_t
ranks_timeout_ms(const struct ranks *r)
{
	return r->cli->timeout_ms ? r->cli->timeout_ms : TIMEOUT_MS;
}

void
ranks_tell(struct ranks *r, const char *note)
{
	if (strcmp(note, r->told) != 0)
		log_line(LOG_ERROR, "note: %s", note);
	snprintf(r->told, sizeof r->told, "%s", note);
}

void
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

enum rc
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

bool
ranks_again(struct ranks *r, enum rc rc, struct err *err)
{
	if (!ranks_recover(r) || rc == RC_BADDATA)
		return false;
	if (r->again == 0)
		r->until_ns = deadline_in_ms(r->cli->timeout_ms ? r->cli->timeout_ms : TIMEOUT_MS);
	if (r->again++ == RECOVER_MOST || !deadline_left_ms(r->until_ns))
		return false;
	return find_way(r, rc, err);
}
