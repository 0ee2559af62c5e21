/* enqueue.h - one rank's operations through command queues, inside the client: for handles whose
 * communicator is driven by queues. */
#ifndef CLIENT_ENQUEUE_H
#define CLIENT_ENQUEUE_H

#include "client/client_impl.h"
#include "client/cmdq.h"

struct enqueue_group;

/* Enqueue an operation of the handle's rank (buffers send[0], recv[0]), or add it to an open group. */
enum gpusim_rc enqueue(struct gpusim_comm *comm, const struct gpusim_collective *c);

enum gpusim_rc enqueue_start(struct gpusim_comm *comm);
enum gpusim_rc enqueue_end(struct gpusim_comm *comm);
void enqueue_group_free(struct enqueue_group *v); /* NULL is legal */

/* This process's queue of a numbered stream; NULL: it has none. */
struct cmdq *enqueue_queue(struct gpusim *g, struct gpusim_device device,
			   struct gpusim_stream stream);

/* Wait for a queue's commands before a position; for its current ones, within the timeout. A failure is reported
 * once, then cleared. */
enum gpusim_rc enqueue_wait(struct cmdq *q, uint64_t position, uint32_t timeout_ms);
enum gpusim_rc enqueue_sync(struct gpusim *g, struct cmdq *q);

/* Operations of the handle are in progress; wait for them. */
bool enqueue_works(const struct gpusim_comm *comm);
enum gpusim_rc enqueue_comm_sync(const struct gpusim_comm *comm);

/* Close the connection's queues. */
void enqueue_fini(struct gpusim *g);

#endif
