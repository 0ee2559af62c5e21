/*
 * client/cmdq.h - command queues of devices of this host: NCCL's and CUDA's calls enqueue here and return.
 *
 * A queue belongs to one stream of one process. Its commands run in order; the program waits for a
 * position. Nothing here calls the coordinator, and once a queue is open and a communicator bound nothing
 * calls the device: a call is a store of 64 bytes. All functions are thread-safe; those on a queue take
 * its lock. Messages of failures are in gpusim_error().
 */
#ifndef CLIENT_CMDQ_H
#define CLIENT_CMDQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpusim.h"
#include "mem/cmdq.h"

struct cmdq;	  /* a queue of a device */
struct cmdq_bind; /* one rank of a communicator, for this process */

/*
 * Open a queue on a device of this host.
 *
 *	stream	0 .. 63: its commands are in order with what other calls queue on that numbered stream of the
 *		device; CMDQ_OWN_STREAM: a stream of its own
 *
 * GPUSIM_UNREACHABLE: the device is not on this host, or its memory is not this user's. GPUSIM_BUSY: too
 * many.
 */
#define CMDQ_OWN_STREAM UINT32_MAX
enum gpusim_rc cmdq_open(struct gpusim *g, struct gpusim_device device, uint32_t stream,
			 struct cmdq **out);

/*
 * The memory at [offset, offset + nbytes) from a device's lowest address, mapped in this process; valid as long as
 * the connection. GPUSIM_UNREACHABLE: as cmdq_open. GPUSIM_NOMEM: the disk has no room for it.
 */
enum gpusim_rc cmdq_window(struct gpusim *g, struct gpusim_device device, uint64_t offset,
			   uint64_t nbytes, void **out);

/* Close after its commands have ended, or were skipped after a failure. NULL is legal. */
void cmdq_close(struct cmdq *q);

uint64_t cmdq_id(const struct cmdq *q); /* for struct cmdq_wait, on the same device */
struct gpusim_device cmdq_device(const struct cmdq *q);
struct cmdq_page *cmdq_page(const struct cmdq *q); /* for workers of CMDQ_EXTERN */
uint64_t cmdq_offset(const struct cmdq *q);	   /* of the page in the device's memory file */

/*
 * Append n commands in order, without other threads' between them. Waits for room.
 *
 *	position	[out] of the last + 1: what cmdq_done and CMDQ_WAIT take; may be NULL
 *
 * n is at most CMDQ_SIZE / 2. GPUSIM_UNREACHABLE: the device has ended.
 */
enum gpusim_rc cmdq_append(struct cmdq *q, const struct cmdq_command *c, size_t n,
			   uint64_t *position);

/* Append a command of kind CMDQ_EXTERN with u.ext.n = 0, which gets the next number for `who` on this
 * queue; *n [out] is that number. */
enum gpusim_rc cmdq_append_extern(struct cmdq *q, unsigned who, uint64_t *n, uint64_t *position);

uint64_t cmdq_tail(const struct cmdq *q);		 /* position of all that was appended */
bool cmdq_done(const struct cmdq *q, uint64_t position); /* carried out, or skipped */

/*
 * Wait for a position. timeout_ms 0: for ever. Returns GPUSIM_OK, GPUSIM_TIMEOUT, GPUSIM_UNREACHABLE (the
 * device has ended), or the error of the queue (cmdq_error), if there is one.
 */
enum gpusim_rc cmdq_wait(struct cmdq *q, uint64_t position, uint32_t timeout_ms);

/* The queue's uncleared error: GPUSIM_OK, or its rc with its message in gpusim_error();
 * *comm (may be NULL): the communicator's id, 0: none. GPUSIM_UNREACHABLE: the device has ended. */
enum gpusim_rc cmdq_error(const struct cmdq *q, uint64_t *comm);

/* Clear an error of that communicator (0: any error). Other errors stay. */
void cmdq_forgive(struct cmdq *q, uint64_t comm);

/*
 * Bind a rank's handle (gpusim_comm_init_rank): from then on its collectives go through queues of its device,
 * and the end of this process is the loss of the rank. The communicator must be one that is driven by queues
 * (gpusim_comm_is_queued).
 */
enum gpusim_rc cmdq_bind(struct gpusim_comm *comm, struct cmdq_bind **out);

/* Unbind; its operations have ended or failed. NULL is legal. */
void cmdq_unbind(struct cmdq_bind *b);

/*
 * Append collectives, sends and receives of bound communicators as one group, and number them.
 * c[i].u.coll.comm is filled in from b[i]. One order for all threads of this process. Sorted as a group
 * requires: by communicator, collectives first, then the sends and receives as one set.
 */
enum gpusim_rc cmdq_append_colls(struct cmdq *q, struct cmdq_bind *const *b, struct cmdq_command *c,
				 size_t n, uint64_t *position);

/* Count an operation in an open group; drop the count. For `gpuctl explain`. */
void cmdq_bind_grouped(struct cmdq_bind *b);
void cmdq_bind_ungrouped(struct cmdq_bind *b);

/* It has failed (one load); its failure with the message, or GPUSIM_OK. No call. */
bool cmdq_bind_failed(const struct cmdq_bind *b);
enum gpusim_rc cmdq_bind_error(const struct cmdq_bind *b);

/* All appended operations have ended; after a failure, see the queue. */
bool cmdq_bind_idle(struct cmdq_bind *b);

/* The rank that its operation has been waiting for, for *ms; -1: none. */
int cmdq_bind_waits(const struct cmdq_bind *b, uint64_t *ms);

#endif
