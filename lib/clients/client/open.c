/* Opening and closing a connection, and its settings. */
#include "client/client_impl.h"
#include "client/enqueue.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/env.h"
#include "base/rundir.h"
#include "mem/sweep.h"
#include "net/net.h"

#define TIMEOUT_MS	60000
#define DEFAULT_WAIT_MS 1000 /* for the default coordinator, which may be starting */

/* A name is short and on one line. */
static bool
is_tellable(const char *name, size_t room)
{
	size_t n = strnlen(name, room);

	for (size_t i = 0; i < n; i++)
		if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f)
			return false;
	return n < room;
}

enum gpusim_rc
gpusim_open(const char *coordinator, struct gpusim **out)
{
	return gpusim_open_within(coordinator, TIMEOUT_MS, out);
}

enum gpusim_rc
gpusim_open_within(const char *coordinator, uint32_t timeout_ms, struct gpusim **out)
{
	const struct timespec pause = {0, 10 * NS_PER_MS};
	char room[RUNDIR_ADDRESS_MAX];
	struct gpusim *g;
	uint64_t end;
	bool dflt;
	enum rc rc;

	if (!coordinator)
		coordinator = rundir_coordinator(room, client_err());
	if (!coordinator)
		return client_rc(client_err()->rc);
	dflt = coordinator == room;
	if (!getenv("GPUSIM_DIR")) /* the coordinator has done it there */
		sweep_folder(SWEEP_FOLDER, net_listens);
	g = calloc(1, sizeof *g);
	if (!g)
		return client_rc(err_set(client_err(), RC_NOMEM, "out of memory"));
	g->timeout_ms = timeout_ms;
	g->no_direct = env_is_set("GPUSIM_P2P_DISABLE");
	g->deterministic = env_is_set("GPUSIM_DETERMINISTIC");
	pthread_mutex_init(&g->lock, NULL);
	pthread_mutex_init(&g->queue_lock, NULL);
	if (is_tellable(program_invocation_short_name, sizeof g->program))
		snprintf(g->program, sizeof g->program, "%s", program_invocation_short_name);
	/* Try again for a while as long as nothing listens there. */
	end = deadline_in_ms(dflt ? DEFAULT_WAIT_MS : 0);
	while ((rc = rpc_client_connect(coordinator, timeout_ms, &g->coord, client_err())) ==
		   RC_UNREACHABLE &&
	       clock_now_ns() < end)
		nanosleep(&pause, NULL);
	if (rc != RC_OK) {
		pthread_mutex_destroy(&g->lock);
		pthread_mutex_destroy(&g->queue_lock);
		free(g);
		if (dflt && rc == RC_UNREACHABLE)
			err_set(
			    client_err(), rc,
			    "no coordinator at %s: start gpucoord, set GPUSIM_COORD, or run under "
			    "'gpuctl run'",
			    room);
		else
			err_prefix(client_err(), "coordinator");
		return client_rc(rc);
	}
	*out = g;
	return GPUSIM_OK;
}

void
gpusim_close(struct gpusim *g)
{
	struct known_device *d;

	if (!g)
		return;
	enqueue_fini(g);
	for (unsigned i = 0; i < DEVICE_BUCKETS; i++)
		while ((d = g->devices[i])) {
			g->devices[i] = d->next;
			rpc_client_close(d->client);
			direct_close(d->file);
			free(d);
		}
	direct_close(g->former);
	free(g->unsynced);
	rpc_client_close(g->coord);
	pthread_mutex_destroy(&g->lock);
	pthread_mutex_destroy(&g->queue_lock);
	free(g);
}

void
gpusim_set_away_ms(struct gpusim *g, uint32_t away_ms)
{
	rpc_client_set_away(g->coord, away_ms);
}

void
gpusim_set_timeout_ms(struct gpusim *g, uint32_t timeout_ms)
{
	g->timeout_ms = timeout_ms;
}

enum gpusim_rc
gpusim_set_program(struct gpusim *g, const char *name)
{
	if (!is_tellable(name, sizeof g->program))
		return client_rc(
		    err_set(client_err(), RC_INVAL,
			    "a program's name must have at most %zu bytes, and no control "
			    "characters",
			    sizeof g->program - 1));
	pthread_mutex_lock(&g->lock);
	snprintf(g->program, sizeof g->program, "%s", name);
	pthread_mutex_unlock(&g->lock);
	return GPUSIM_OK;
}
