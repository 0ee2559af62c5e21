/*
 * shell.h - the environment of the coordinator's state machine: a server, connections to devices, a clock.
 */
#ifndef GPUCOORD_SHELL_H
#define GPUCOORD_SHELL_H

#include "base/daemon.h"
#include "coord/coord.h"
#include "decisions.h"
#include "net/net.h"
#include "observe.h"
#include "recorder.h"
#include "reports.h"
#include "web.h"

struct shell;

/* The objects that are notified of all that happens. */
struct shell_sight {
	struct observer *observer; /* of registering devices */
	struct recorder *recorder; /* or NULL */
	struct reports *reports;   /* or NULL */
};

/* Serve at addr and continue from the state (state_open); events wake dm. The configuration's address and
 * state are filled in. The objects in *see outlive the shell. */
enum rc shell_new(const char *addr, const char *state, struct coord_config *cfg, struct daemon *dm,
		  const struct shell_sight *see, struct shell **out, struct err *err);

/* The state machine, for adding devices before the loop starts. */
struct coord *shell_coord(struct shell *s);

/* Accept models, and serve them through w. Call it before the loop starts; w is stopped after shell_free. */
void shell_serve_models(struct shell *s, struct web *w);

/* Set the pipe on which the parent reports the ends of processes; see exits.c. Before the loop starts. */
void shell_hear_exits(struct shell *s, int fd);

/* Serve the lab's gRPC clients at "host:port". Before the loop starts; errors as of grpc_server_start. */
enum rc shell_serve_grpc(struct shell *s, const char *host, enum net_reach reach, struct err *err);

/* "host:port" with the real port; NULL: gRPC is not served. */
const char *shell_grpc_address(const struct shell *s);

/* Allow faults to be injected into the coordinator. */
void shell_allow_inject(struct shell *s);

/* Record decisions. The objects in *d outlive the shell. Call it before the loop starts. */
void shell_record(struct shell *s, const struct decisions *d);

/* Feed the queued events and a tick to the state machine, and carry out its actions. */
void shell_step(struct shell *s);

/* Stop answering and free the shell. NULL is legal. clean: remove the stored state, too. */
void shell_free(struct shell *s, bool clean);

#endif
