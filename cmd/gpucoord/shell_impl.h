/*
 * shell_impl.h - what the shell (shell.c) uses: the stored state, looks at processes, faults, connections, ends of
 * processes.
 */
#ifndef GPUCOORD_SHELL_IMPL_H
#define GPUCOORD_SHELL_IMPL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coord/coord.h"
#include "grpc/server.h"
#include "net/rpc_client.h"
#include "net/rpc_server.h"
#include "shell.h"

/* ---- the coordinator's state, stored so that a restarted coordinator continues */

struct state;

/*
 * state_open - read the records of a former coordinator into c; *actions as in coord_restore.
 *
 *	where	a directory, etcd://host:port/prefix, "none", or NULL: by the address
 *	address	where the coordinator listens
 *	out	NULL: nothing is stored. Ends with state_close
 *
 * The stored state survives the coordinator's process, and a crash of the machine. The latter does not hold
 * for the directory next to an ipc socket: the devices and clients of that socket end with the machine, and
 * each fsync would cost them a fraction of a millisecond. If the address's directory cannot be made, a
 * warning says so and nothing is stored. Errors as in store_open, and RC_BADDATA of coord_restore.
 */
enum rc state_open(const char *where, const char *address, struct coord *c,
		   struct coord_actions *actions, struct state **out, struct err *err);

/* Return true if state_open would store anything. */
bool state_wanted(const char *where, const char *address);

/* Commit the records among the actions, before the caller carries out the rest; if that fails, the actions
 * are changed. NULL state: does nothing. */
void state_commit(struct state *st, struct coord *c, struct coord_actions *actions);

/* Try again to commit the changes that failed. */
void state_tick(struct state *st, struct coord *c);

/* remove: the coordinator ends normally, and its state is removed except for permanent records
 * (coord_record_stays). Else all stays. NULL is legal. */
void state_close(struct state *st, bool remove);

/* ---- whether a silent process of this host gets no processor: by the states of its threads in /proc, and how
 * long they have waited for a processor */

struct look;

/* The last look at each device. {0} is empty. */
struct looks {
	struct look *v;
	size_t n, cap;
};

/*
 * look_at - look at the process of a device.
 *
 * COORD_LOOK_STARVED: since the previous look, if that is recent, its threads together have waited for a
 * processor for more than a fifth of the time, and eight times as long as they ran. COORD_LOOK_RUNNABLE:
 * its first thread is runnable now. Else COORD_LOOK_IDLE, also for a process that is stopped, has ended, or
 * cannot be read.
 */
enum coord_look look_at(struct looks *l, uint64_t device_id, uint32_t pid, uint64_t now_ns);

void looks_fini(struct looks *l);

/* ---- faults of the coordinator itself, to rehearse failure: kill, stop, slow */

#define FAULTS_SOON 8

/* All zero except for the initialised lock: injection is not allowed. */
struct faults {
	atomic_bool allowed;
	pthread_mutex_t lock;
	struct gpusim_fault soon[FAULTS_SOON]; /* kill and stop wait until the answer has left */
	unsigned nsoon;
	atomic_bool slow;	 /* described by the fields below */
	struct gpusim_fault how; /* count: requests left */
	uint64_t until_ns;
	uint64_t fired;
};

/* Answer an Inject. On any thread. */
void faults_call(struct faults *f, struct rpc_call *call);

/* Call before a request is handled: waits if the coordinator is to be slow. */
void faults_delay(struct faults *f);

/* Kill or stop the coordinator if that is pending; called every 100 ms or so. */
void faults_tick(struct faults *f);

/* ---- the connections to devices: one client per address, made at its first call */

struct connections;

/* Called when nobody listened, at seen_ns, at the address where device `id` was last called. On any thread;
 * must not block. */
typedef void (*connections_lost_fn)(void *arg, uint64_t id, const char *addr, uint64_t seen_ns);

struct connections *connections_new(connections_lost_fn fn, void *arg);

/* End all calls; their callbacks run. */
void connections_free(struct connections *d);

/* The client for an address, to call device `id` (0: any); RC_BUSY: too many addresses, RC_INVAL, RC_NOMEM.
 * Valid until connections_tick. */
enum rc connections_client(struct connections *d, const char *addr, uint64_t id, uint64_t now_ns,
			   struct rpc_client **out, struct err *err);

/* Close connections that were not used for a while, and those where nobody listens. */
void connections_tick(struct connections *d, uint64_t now_ns);

/* ---- the ends of processes: of devices that this process started, and of those that its parent reports */

struct exits {
	int fd; /* -1, or a pipe of lines "PID STATUS", with STATUS as from wait(2) */
	char line[64];
	size_t len;
};

/* Begin to read fd, which the caller closes. */
void exits_init(struct exits *e, int fd);

/* Get the next end; false: none is known. */
bool exits_next(struct exits *e, uint32_t *pid, int *status);

#endif
