/*
 * device_impl.h - what the files of a device's service share.
 */
#ifndef DEV_DEVICE_IMPL_H
#define DEV_DEVICE_IMPL_H

#include <pthread.h>

#include "base/host.h"
#include "dev/cmdq.h"
#include "dev/device.h"
#include "dev/injector.h"
#include "dev/lease.h"
#include "dev/program.h"
#include "dev/protocol.h"
#include "dev/device_recorder.h"
#include "dev/stream.h"
#include "net/net.h"

/* An event on its way to the protocol. */
struct fed {
	struct fed *next;
	struct protocol_event event;
};

/* The thread that adopts another device's memory: see serve_adopt.c. */
struct adopt {
	pthread_t thread;
	bool started;
	struct rpc_call *call;
	atomic_bool over, stop;
};

struct device {
	uint64_t id, incarnation;
	uint32_t ordinal;
	char address[NET_ADDR_MAX], grpc[NET_ADDR_MAX];
	char host[HOST_ID_MAX];
	enum devmem_fate mem_fate;
	uint64_t latency_ns, bits_per_s;
	uint32_t threads;
	bool supervised;
	bool spare, join;
	const char *mem_private; /* static, or NULL */
	struct devmem *mem;
	struct xport *xport;
	struct program_env env;
	struct device_recorder recorder;
	struct streams *streams;
	struct cmdqs *cmdqs;
	struct leases *leases;
	struct snapshots *snapshots;
	struct adopt adopt;
	atomic_size_t held;   /* bytes of programs */
	pthread_mutex_t lock; /* addresses */
	struct protocol *protocol;
	struct program *graph[PROTOCOL_MAX_GRAPHS]; /* by the protocol's graph number; or NULL */
	pthread_mutex_t feed_lock;		    /* what follows: see serve_protocol.c */
	struct fed *feed_head, **feed_tail;
	bool feeding;		 /* a thread is feeding */
	struct injector *inject; /* NULL: injection is off */
};

/* Answer with the reply (NULL: done), or with the failure in *err. */
static inline void
answer(struct rpc_call *call, const GpuSim__Reply *reply, const struct err *err)
{
	if (err->rc != RC_OK)
		rpc_reply_err(call, err);
	else if (reply)
		rpc_reply(call, reply);
	else
		rpc_reply_done(call);
}

/* The services, one family a file. Each answers the call. */
void serve_memory(struct device *d, struct rpc_call *call);   /* malloc free write read */
void serve_protocol(struct device *d, struct rpc_call *call); /* communicators, graphs, runs */
void serve_adopt(struct device *d, struct rpc_call *call);
void serve_transfer(struct device *d, struct rpc_call *call); /* the lab's four, stream status */
void serve_queue(struct device *d, struct rpc_call *call);    /* command queues */
void serve_inject(struct device *d, struct rpc_call *call);   /* faults */
void serve_recorder(struct device *d, struct rpc_call *call); /* the flight recorder */

/* Wait for the last thread; server and device are stopped. */
void device_join_adopt(struct device *d);

/* ---- the protocol's actions, carried out. serve_comm.c */

void carry_attach(struct device *d, const GpuSim__CommAttachRequest *m, struct err *err);
void carry_join(struct device *d, const GpuSim__CommJoinRequest *m, struct err *err);
/* Answer a successful attach with what this rank offers. */
void answer_attach(struct device *d, struct rpc_call *call);

/* ---- serve_run.c */

void carry_define(struct device *d, const GpuSim__GraphDefineRequest *m, uint32_t graph,
		  struct err *err);
/* Queue a run; unless it is queued, done(arg) is called at its end. */
enum rc carry_run(struct device *d, const GpuSim__RunRequest *m, const struct protocol_action *a,
		  run_done_fn done, void *arg, struct err *err);

#endif
