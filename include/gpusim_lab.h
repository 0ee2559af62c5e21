/*
 * gpusim_lab.h - calls in the form of "the lab".
 *
 * The lab is the programming assignment of a university course, from which gpusim grew. It defines two
 * gRPC services, GPUDevice and GPUCoordinator, with transfers in two halves and a ring all-reduce
 * (gpusim(7), THE LAB). gpucoord and gpudev serve the lab's clients; these calls are their equivalents in
 * C, and gpuctl's begin-send, begin-receive and stream-status use them. New programs should use
 * gpusim_send, gpusim_recv and gpusim_allreduce of gpusim.h, whose conventions also hold here.
 */
#ifndef GPUSIM_LAB_H
#define GPUSIM_LAB_H

#include <gpusim.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Each call queues one half of a transfer, on two devices of a communicator ({0}: their only one).
 *
 *	stream	names the transfer: gpusim_begin_send makes it, gpusim_begin_receive gets it. Each half's
 *		result is that of its device's stream (gpusim_stream_status, gpusim_stream_sync)
 *
 * Errors: GPUSIM_NOTFOUND: no such device or communicator. GPUSIM_INVAL: a range or a rank.
 */
enum gpusim_rc gpusim_begin_send(struct gpusim *g, struct gpusim_device device,
				 struct gpusim_comm_id comm, struct gpusim_addr addr,
				 uint64_t nbytes, uint32_t dst_rank, struct gpusim_stream *stream);
enum gpusim_rc gpusim_begin_receive(struct gpusim *g, struct gpusim_device device,
				    struct gpusim_comm_id comm, struct gpusim_stream stream,
				    struct gpusim_addr addr, uint64_t nbytes, uint32_t src_rank);

/* Queue an in-place ring all-reduce of count elements at addrs (by rank); for a handle of all ranks.
 * gpusim_comm_status returns the result. */
enum gpusim_rc gpusim_allreduce_ring(struct gpusim_comm *comm, uint64_t count,
				     enum gpusim_dtype dtype, enum gpusim_redop redop,
				     const struct gpusim_addr *addrs);

#ifdef __cplusplus
}
#endif
#endif
