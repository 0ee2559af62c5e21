/*
 * device_impl.h - what the files of a device's service share.
 */
#ifndef DEV_DEVICE_IMPL_H
#define DEV_DEVICE_IMPL_H

#include <pthread.h>

#include "dev/device.h"
#include "dev/lease.h"
#include "dev/program.h"
#include "dev/stream.h"
#include "net/net.h"

#define MAX_GRAPHS	  1024
#define MAX_CLIENT_GRAPHS 768 /* of one client; the coordinator is one */

struct graph {
	uint64_t id, client;
	struct program *program;
};

struct device {
	uint64_t id, incarnation;
	uint32_t ordinal;
	char address[NET_ADDR_MAX];
	char host[64];
	enum devmem_keep keep;
	uint64_t latency_ns, bits_per_s;
	uint32_t threads;
	bool spare, join;
	const char *mem_private; /* static, or NULL */
	struct devmem *mem;
	struct xport *xport;
	struct program_env env;
	struct streams *streams;
	struct leases *leases;
	atomic_size_t held;   /* bytes of programs */
	pthread_mutex_t lock; /* graphs, address */
	struct graph graph[MAX_GRAPHS];
	unsigned ngraphs;
};

/* The services, one family a file. Each answers the call. */
void serve_memory(struct device *d, struct rpc_call *call);   /* malloc free write read */
void serve_comm(struct device *d, struct rpc_call *call);     /* attach detach abort */
void serve_run(struct device *d, struct rpc_call *call);      /* run, graph define and drop */
void serve_transfer(struct device *d, struct rpc_call *call); /* the lab's four, stream status */

/* The graphs of a communicator that begins or ends go, and those of any that is no more. */
void device_drop_graphs(struct device *d, uint64_t comm);

#endif
