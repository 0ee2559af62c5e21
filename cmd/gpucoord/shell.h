/*
 * shell.h - the world around the coordinator's state machine: a server, connections to devices, a
 * clock.
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

/* What is told of all that happens. */
struct shell_sight {
	struct observer *observer; /* of devices that register */
	struct recorder *recorder; /* or NULL */
	struct reports *reports;   /* the same */
};

/* Serve at addr and go on from the state (state_open); events wake dm. What the
 * configuration says of address and state is filled in. What *see names lives longer. */
enum rc shell_new(const char *addr, const char *state, struct coord_config *cfg, struct daemon *dm,
		  const struct shell_sight *see, struct shell **out, struct err *err);

/* The state machine, for adding devices before the loop starts. */
struct coord *shell_coord(struct shell *s);

/* Take models, and serve them through w. Before the loop starts; w is stopped after
 * shell_free. */
void shell_serve_models(struct shell *s, struct web *w);

/* A pipe by which its parent tells how processes have ended; see exits.h. Before the loop starts. */
void shell_hear_exits(struct shell *s, int fd);

/* Serve the lab's gRPC clients at "host:port". Before the loop starts; errors as of grpc_server_start. */
enum rc shell_serve_grpc(struct shell *s, const char *host, enum net_reach reach, struct err *err);

/* "host:port" with the real port; NULL: they are not served. */
const char *shell_grpc_address(const struct shell *s);

/* Let faults be injected into the coordinator. */
void shell_allow_inject(struct shell *s);

/* Record decisions. What *d names outlives the shell. Before the loop starts. */
void shell_record(struct shell *s, const struct decisions *d);

/* Feed what has come, and a tick, to the state machine, and carry out what it wants. */
void shell_step(struct shell *s);

/* Answers nobody any more. NULL is legal. clean: what was stored goes, too. */
void shell_free(struct shell *s, bool clean);

#endif
