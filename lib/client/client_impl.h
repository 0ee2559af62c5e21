/*
 * client_impl.h - what the files of libgpusim share.
 *
 * Design notes. A handle's lock guards its table of devices; connections are made when first needed
 * and live as long as the handle. Calls wait on their own; the handle itself is never locked while
 * one waits.
 */
#ifndef CLIENT_IMPL_H
#define CLIENT_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/rc.h"
#include "net/rpc_client.h"

struct known_device {
	struct known_device *next;
	uint64_t id;
	struct rpc_client *client;
};

struct gpusim {
	struct rpc_client *coord;
	pthread_mutex_t lock;
	struct known_device *devices;
	atomic_uint timeout_ms;
};

/* This thread's error, to be filled by whatever fails. */
struct err *client_err(void);

/* rc as the public enum; they are the same numbers. */
static inline enum gpusim_rc
client_rc(enum rc rc)
{
	return (enum gpusim_rc)rc;
}

uint64_t client_deadline(const struct gpusim *g);

/* Call the coordinator; the answer must be of the case `want`. */
enum rc client_call(struct gpusim *g, const GpuSim__Request *req, int want, GpuSim__Reply **out);

/* Call a device. */
enum rc client_call_device(struct gpusim *g, uint64_t id, const GpuSim__Request *req, int want,
			   GpuSim__Reply **out);

/* The connection to a device; RC_NOTFOUND. */
enum rc client_device(struct gpusim *g, uint64_t id, struct rpc_client **out);

/* Run a list of one rank on a device, outside any communicator. */
enum rc client_run_device(struct gpusim *g, uint64_t device, const struct gpusim_ops *o,
			  enum gpusim_wait wait);

/* What a status answer means; RC_TIMEOUT when a wait ended in progress. The reason of a failure
 * becomes this thread's error. */
enum rc client_state(GpuSim__Status status, uint32_t code, const char *reason,
		     enum gpusim_wait wait, enum gpusim_state *state);

/* Plain copies of messages. */
void client_copy_device(struct gpusim_device *to, const GpuSim__DeviceMetadata *from);
enum rc client_copy_devices(struct gpusim_device **to, GpuSim__DeviceMetadata *const *from,
			    size_t n);

#endif
