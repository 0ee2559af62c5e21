/*
 * A call fails if the coordinator is unreachable or the device is lost. The coordinator comes back,
 * so the call is repeated; for a lost device the coordinator reports the reason.
 */
#include "base/clock.h"
#include "ps/ps_impl.h"

#define MAX_TRIES  6
#define MAX_PROBES 100 /* at least 5 s: until the coordinator has noticed a lost device */
#define PAUSE_NS   (50 * NS_PER_MS)

static const struct gpusim_event probed = {0x7073}; /* no one else records it */

/* Return true if another try would fail the same way. */
static bool
is_final(enum rc rc)
{
	return rc == RC_INVAL || rc == RC_NOMEM || rc == RC_BADDATA || rc == RC_INTERNAL;
}

/* Give the device the smallest piece of work. A lost device does not do it. */
static enum rc
probe(struct gpusim_comm *comm, struct err *err)
{
	struct gpusim_ops *o = gpusim_ops_new(1);
	enum rc rc;

	gpusim_ops_record(o, 0, STREAM_COMPUTE, probed);
	rc = api(gpusim_submit(comm, o, GPUSIM_SYNC, NULL), err);
	gpusim_ops_free(o);
	return rc;
}

enum rc
ps_device_gone(struct gpusim_comm *comm, bool *away, struct err *err)
{
	enum gpusim_state state;
	enum gpusim_rc known;
	enum rc rc;

	*away = false;
	for (unsigned i = 0; i < MAX_PROBES; i++) {
		rc = probe(comm, err);
		if (rc == RC_OK)
			return rc;
		known = gpusim_comm_status(comm, GPUSIM_SYNC, &state);
		*away = known == GPUSIM_UNREACHABLE;
		if (*away)
			return RC_OK;
		if (known != GPUSIM_OK || state == GPUSIM_STATE_FAILED)
			return err_set(err, known == GPUSIM_OK ? RC_UNREACHABLE : (enum rc)known,
				       "%s", gpusim_error());
		/* The communicator is usable: the coordinator came back in between, or has not
		 * noticed yet. */
		clock_sleep(PAUSE_NS);
	}
	return rc;
}

enum rc
ps_again(struct gpusim_comm *comm, struct ps_trouble *t, struct err *err)
{
	uint64_t patience = deadline_in_ms(TASK_AWAY_MS);
	enum rc rc = err->rc;

	if (is_final(rc))
		return rc;
	for (t->away = true; t->away || rc != RC_OK;) {
		if (!t->away && t->tries++ == MAX_TRIES)
			return rc;
		if (t->away && deadline_left_ms(patience) == 0)
			return err_set(err, RC_UNREACHABLE,
				       "the coordinator has been unreachable for %d s",
				       TASK_AWAY_MS / 1000);
		clock_sleep(PAUSE_NS);
		rc = ps_device_gone(comm, &t->away, err);
	}
	return t->tries++ < MAX_TRIES ? RC_OK : err->rc;
}
