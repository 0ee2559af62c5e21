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

#endif
