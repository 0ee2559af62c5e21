/* The lab's calls: transfers in two halves, and its ring. */
#include "gpusim_lab.h"

#include <stdlib.h>

#include "base/buf.h"
#include "client/client_impl.h"

enum gpusim_rc
gpusim_begin_send(struct gpusim *g, struct gpusim_device device, struct gpusim_comm_id comm,
		  struct gpusim_addr addr, uint64_t nbytes, uint32_t dst_rank,
		  struct gpusim_stream *stream)
{
	GpuSim__BeginSendRequest m = GPU_SIM__BEGIN_SEND_REQUEST__INIT;
	GpuSim__MemAddr a = GPU_SIM__MEM_ADDR__INIT;
	GpuSim__Rank r = GPU_SIM__RANK__INIT;
	GpuSim__Request req = WIRE_REQUEST(BEGIN_SEND, beginsend, m);
	GpuSim__Reply *reply;
	enum rc rc;

	a.value = addr.addr;
	r.value = dst_rank;
	m.sendbuffaddr = &a;
	m.dstrank = &r;
	m.numbytes = nbytes;
	m.commid = comm.id;
	rc = client_call_device(g, device, &req, GPU_SIM__REPLY__BODY_BEGIN_SEND, &reply);
	if (rc != RC_OK)
		return client_rc(rc);
	stream->id = reply->beginsend->streamid ? reply->beginsend->streamid->value : 0;
	wire_reply_free(reply);
	return GPUSIM_OK;
}

enum gpusim_rc
gpusim_begin_receive(struct gpusim *g, struct gpusim_device device, struct gpusim_comm_id comm,
		     struct gpusim_stream stream, struct gpusim_addr addr, uint64_t nbytes,
		     uint32_t src_rank)
{
	GpuSim__BeginReceiveRequest m = GPU_SIM__BEGIN_RECEIVE_REQUEST__INIT;
	GpuSim__StreamId id = GPU_SIM__STREAM_ID__INIT;
	GpuSim__MemAddr a = GPU_SIM__MEM_ADDR__INIT;
	GpuSim__Rank r = GPU_SIM__RANK__INIT;
	GpuSim__Request req = WIRE_REQUEST(BEGIN_RECEIVE, beginreceive, m);

	id.value = stream.id;
	a.value = addr.addr;
	r.value = src_rank;
	m.streamid = &id;
	m.recvbuffaddr = &a;
	m.srcrank = &r;
	m.numbytes = nbytes;
	m.commid = comm.id;
	return client_rc(
	    client_call_device(g, device, &req, GPU_SIM__REPLY__BODY_BEGIN_RECEIVE, NULL));
}

enum gpusim_rc
gpusim_allreduce_ring(struct gpusim_comm *comm, uint64_t count, enum gpusim_dtype dtype,
		      enum gpusim_redop redop, const struct gpusim_addr *addrs)
{
	GpuSim__AllReduceRingRequest m = GPU_SIM__ALL_REDUCE_RING_REQUEST__INIT;
	GpuSim__Request req = WIRE_REQUEST(ALL_REDUCE_RING, allreducering, m);
	uint32_t n = comm->nranks;
	struct {
		GpuSim__MemAddr addr;
		GpuSim__AllReduceRingRequest__MemAddrsEntry entry;
	} *v = alloc_zeroed(n, sizeof *v);
	enum rc rc;

	m.memaddrs = alloc_zeroed(n, sizeof *m.memaddrs);
	if (!v || !m.memaddrs) {
		rc = err_set(client_err(), RC_NOMEM, "out of memory");
		goto out;
	}
	for (uint32_t r = 0; r < n; r++) {
		v[r].addr = (GpuSim__MemAddr)GPU_SIM__MEM_ADDR__INIT;
		v[r].addr.value = addrs[r].addr;
		v[r].entry = (GpuSim__AllReduceRingRequest__MemAddrsEntry)
		    GPU_SIM__ALL_REDUCE_RING_REQUEST__MEM_ADDRS_ENTRY__INIT;
		v[r].entry.key = r;
		v[r].entry.value = &v[r].addr;
		m.memaddrs[r] = &v[r].entry;
	}
	m.n_memaddrs = n;
	m.commid = comm->id;
	m.count = count;
	m.dtype = (GpuSim__DataType)dtype;
	m.op = (GpuSim__ReduceOp)redop;
	rc = client_call(comm->g, &req, GPU_SIM__REPLY__BODY_ALL_REDUCE_RING, NULL);
out:
	free(m.memaddrs);
	free(v);
	return client_rc(rc);
}
