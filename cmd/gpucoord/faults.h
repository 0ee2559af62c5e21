/*
 * faults.h - faults of the coordinator itself, to rehearse failure: kill, stop, slow.
 */
#ifndef GPUCOORD_FAULTS_H
#define GPUCOORD_FAULTS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "net/rpc_server.h"

#define FAULTS_SOON 8

/* All zero, with the lock made: nothing may be injected. */
struct faults {
	atomic_bool allowed;
	pthread_mutex_t lock;
	struct gpusim_fault soon[FAULTS_SOON]; /* kill and stop wait until the answer has left */
	unsigned nsoon;
	atomic_bool slow;	 /* the three below say how; */
	struct gpusim_fault how; /* count: requests left */
	uint64_t until_ns;
	uint64_t fired;
};

/* Answer an Inject. On any thread. */
void faults_call(struct faults *f, struct rpc_call *call);

/* Before a request is handled: wait, if the fault is slowness. */
void faults_delay(struct faults *f);

/* Kill or stop now; called every 100 ms or so. */
void faults_tick(struct faults *f);

#endif
