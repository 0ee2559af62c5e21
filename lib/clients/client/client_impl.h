/*
 * client_impl.h - shared by the files of libgpusim.
 *
 * Design notes. A handle's lock guards its table of devices, and is never held while a call waits. Each
 * answer of the coordinator that describes devices updates the table. Connections are made when first needed
 * and live as long as the handle. Several threads may use a device's memory file, so a file whose device
 * has ended is put aside, and closed with the handle.
 */
#ifndef CLIENT_IMPL_H
#define CLIENT_IMPL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/rc.h"
#include "mem/memfile.h"
#include "net/rpc_client.h"

/* The memory of a device of this host. */
struct device_file {
	struct device_file *next; /* former files */
	struct memfile *file;
	uint64_t min_addr;
};

/* Copies can bypass the device's process. */
enum direct { DIRECT_UNKNOWN, DIRECT_YES, DIRECT_NO };

#define DEVICE_BUCKETS 256

struct cmdq;
struct cmdq_bind;
struct queue_table;
struct enqueue_group;

struct known_device {
	struct known_device *next; /* in its bucket */
	uint64_t id;
	struct rpc_client *client; /* NULL until connected */
	bool noted;		   /* the following is from the coordinator */
	struct gpusim_device_info told;
	enum direct direct;	  /* lock held */
	struct device_file *file; /* of DIRECT_YES; lock held; the target lives on */
};

struct gpusim {
	struct rpc_client *coord;
	pthread_mutex_t lock;
	struct known_device *devices[DEVICE_BUCKETS];
	struct device_file *former; /* files of ended devices */
	bool no_direct;		    /* GPUSIM_P2P_DISABLE */
	bool deterministic;	    /* GPUSIM_DETERMINISTIC */
	struct queue_table *queues; /* of numbered streams; lock held */
	pthread_mutex_t queue_lock; /* held while a queue is opened or a rank bound */
	atomic_uint submits;	    /* of work on streams that does not go through queues */
	/* Communicators with such work since the last wait for a stream; lock held */
	uint64_t *unsynced;
	size_t nunsynced;
	atomic_uint timeout_ms;
	char program[GPUSIM_PROGRAM]; /* lock held */
};

/* A communicator, from the coordinator's answer: except for the group it does not change, so threads
 * share it without a lock. */
struct gpusim_comm {
	struct gpusim *g;
	uint64_t id;
	uint32_t epoch, nranks;
	int rank;			   /* the caller's; -1: the handle is for all ranks */
	bool queued;			   /* its ranks enqueue operations */
	atomic_uint splits;		   /* splits by the rank */
	struct gpusim_ops *group;	   /* of the rank's open group, used by one thread */
	struct gpusim_device_info *device; /* by rank */
	/* Of a rank whose operations go through queues: */
	struct enqueue_group *enqueued; /* of its open group, used by one thread */
	struct cmdq_bind *_Atomic bind; /* made by the first operation */
	struct cmdq *_Atomic queue[64]; /* by stream, as used; owned by the connection */
};

/* This thread's error, set by failing functions. */
struct err *client_err(void);

/* Set this thread's gpusim_note(). */
void client_note(const char *text);

/*
 * Copy a caller's struct that begins with its size; missing fields are 0.
 *
 *	name	of the struct, for the message
 *
 * RC_INVAL: the size is 0, or larger than ours.
 */
enum rc client_take(const char *name, const void *from, void *to, size_t size);

/* rc as the public enum; they are the same numbers. */
static inline enum gpusim_rc
client_rc(enum rc rc)
{
	return (enum gpusim_rc)rc;
}

/* Fail, with a message for gpusim_error(). */
#define client_fail(rc, ...) client_rc(err_set(client_err(), rc, __VA_ARGS__))

uint64_t client_deadline(const struct gpusim *g);

/* Call the coordinator; the answer must be of the case `want`. */
enum rc client_call(struct gpusim *g, const GpuSim__Request *req, int want, GpuSim__Reply **out);

/* The same, with wait_ms more time to wait for devices in use. */
enum rc client_call_waiting(struct gpusim *g, const GpuSim__Request *req, int want,
			    uint32_t wait_ms, GpuSim__Reply **out);

/* A copy of the program's name, for the coordinator's messages to other users. */
char *client_program(struct gpusim *g, char out[GPUSIM_PROGRAM]);

/* Call a device. */
enum rc client_call_device(struct gpusim *g, struct gpusim_device device,
			   const GpuSim__Request *req, int want, GpuSim__Reply **out);

/* The connected device; it lives as long as the handle. RC_NOTFOUND. */
enum rc client_device(struct gpusim *g, struct gpusim_device device, struct known_device **out);

/*
 * Copies without the device's process, where its memory is a file of this host and user (direct.c).
 * One of src and dst is the host's, the other is NULL.
 *
 *	done	[out] false with RC_OK: use calls, which also report bad ranges; part may have been copied
 *
 * Errors: the device does not answer.
 */
enum rc direct_copy(struct gpusim *g, struct known_device *d, struct gpusim_addr addr,
		    const void *src, void *dst, uint64_t nbytes, bool *done);
enum rc direct_copy_across(struct gpusim *g, struct known_device *dst, struct gpusim_addr dst_addr,
			   struct known_device *src, struct gpusim_addr src_addr, uint64_t nbytes,
			   bool *done);

/* The memory file of a device of this host and user, even if copies may not use it, and the address where it begins
 * (may be NULL); it lives as long as the connection. RC_UNREACHABLE: not accessible. */
enum rc direct_memfile(struct gpusim *g, struct gpusim_device device, struct memfile **out,
		       uint64_t *min_addr);

/* Close the file of a device, and those after it; NULL is legal. */
void direct_close(struct device_file *f);

/* Call for a CommInitResponse; out may be NULL. wait_ms: wait for devices in use. *out NULL: no
 * communicator, for a rank of a split without color. */
enum gpusim_rc client_call_init(struct gpusim *g, const GpuSim__Request *req, uint32_t wait_ms,
				struct gpusim_comm **out);
/* An id as its two numbers. RC_INVAL. */
enum rc client_parse_id(const struct gpusim_unique_id *uid, uint64_t *high, uint64_t *low);
/* Copy the caller's config (NULL: none) into *out. RC_INVAL. */
enum rc client_config(const struct gpusim_comm_config *config, struct gpusim_comm_config *out);

/*
 * The coordinator has queued work that it passes to devices later: waiting for one of their streams must
 * first wait for that (client_await_submitted).
 */
void client_submitted(struct gpusim *g, uint64_t comm);
enum rc client_await_submitted(struct gpusim *g);

/* Submit the list of the handle's own rank, queued. */
enum gpusim_rc client_submit_rank(struct gpusim_comm *comm, const struct gpusim_ops *o);

/* Copy on one device, by the device. */
enum gpusim_rc client_copy_within(struct gpusim *g, struct gpusim_device device,
				  struct gpusim_addr dst, struct gpusim_addr src, uint64_t nbytes);

/* The meaning of a status answer; RC_TIMEOUT when a wait ended in progress. The reason of a failure
 * becomes this thread's error. */
enum rc client_state(GpuSim__Status status, uint32_t code, const char *reason,
		     enum gpusim_wait wait, enum gpusim_state *state);

/* Note the devices' addresses from the coordinator. When out of memory, fewer are noted. */
void client_note_devices(struct gpusim *g, const struct gpusim_device_info *v, size_t n);

/* Plain copies of messages. */
void client_copy_device(struct gpusim_device_info *to, const GpuSim__DeviceMetadata *from);
enum rc client_copy_devices(struct gpusim_device_info **to, GpuSim__DeviceMetadata *const *from,
			    size_t n);

#endif
