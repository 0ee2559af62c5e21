/* Building lists of operations: all work reaches devices by these. */
#include "client/ops.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/env.h"
#include "coll/shape.h"
#include "mem/dtype.h"
#include "mem/redop.h"
#include "wire/wire.h"

struct gpusim_ops *
ops_new(uint32_t nranks, uint32_t field)
{
	struct gpusim_ops *o = calloc(1, sizeof *o);

	if (!o)
		return NULL;
	o->nranks = nranks;
	o->deterministic = env_is_set("GPUSIM_DETERMINISTIC");
	o->field = field;
	o->rank = alloc_zeroed(nranks, sizeof *o->rank);
	o->ranks = alloc_zeroed(nranks, sizeof(GpuSim__RankOps *));
	if (!o->rank || !o->ranks) {
		gpusim_ops_free(o);
		return NULL;
	}
	return o;
}

struct gpusim_ops *
gpusim_ops_new(uint32_t nranks)
{
	return ops_new(nranks, OPS_OF_RANKS);
}

void
gpusim_ops_free(struct gpusim_ops *o)
{
	if (!o)
		return;
	for (uint32_t r = 0; o->rank && r < o->nranks; r++)
		buf_fini(&o->rank[r].packed);
	free(o->rank);
	free(o->ranks);
	free(o);
}

/* Append the operation's bytes. */
static void
add(struct gpusim_ops *o, uint32_t rank, struct gpusim_stream stream, GpuSim__Op *op)
{
	if (!o || o->err.rc != RC_OK)
		return;
	op->untimed = o->untimed;
	if (stream.id < OPS_STREAMS && o->named[stream.id].phase) {
		op->label = o->named[stream.id].label;
		op->phase = o->named[stream.id].phase;
	}
	op->stream = stream.id < UINT32_MAX ? (uint32_t)stream.id : UINT32_MAX;
	if (rank >= o->nranks)
		err_set(&o->err, RC_INVAL, "rank %u: must be less than %u", rank, o->nranks);
	else if (!buf_pack_field(&o->rank[rank].packed, o->field, &op->base))
		err_set(&o->err, RC_NOMEM, "out of memory");
}

/* protobuf-c packs an unknown field as its tag and its bytes, so one field can carry a whole repeated
 * field, from after the first tag, which is one byte. */
void
ops_carry(struct rank_list *l, uint32_t field, ProtobufCMessage *m)
{
	_Static_assert(OPS_OF_RANKS < 16 && OPS_OF_RUN < 16, "a tag of more than a byte");

	if (!l->packed.len)
		return;
	l->ops = (ProtobufCMessageUnknownField){.tag = field,
						.wire_type = PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED,
						.len = l->packed.len - 1,
						.data = (uint8_t *)l->packed.data + 1};
	m->unknown_fields = &l->ops;
	m->n_unknown_fields = 1;
}

enum rc
ops_ranks(const struct gpusim_ops *o, GpuSim__RankOps ***out, size_t *n)
{
	if (!o)
		return err_set(client_err(), RC_NOMEM, "out of memory");
	if (o->err.rc != RC_OK)
		return err_set(client_err(), o->err.rc, "%s", o->err.text);
	*n = 0;
	*out = o->ranks;
	for (uint32_t r = 0; r < o->nranks; r++) {
		GpuSim__RankOps *msg = &o->rank[r].msg;

		if (!o->rank[r].packed.len)
			continue;
		gpu_sim__rank_ops__init(msg);
		msg->rank = r;
		ops_carry(&o->rank[r], o->field, &msg->base);
		o->ranks[(*n)++] = msg;
	}
	return RC_OK;
}

void
gpusim_ops_timing(struct gpusim_ops *o, enum gpusim_timing timing)
{
	if (o)
		o->untimed = timing == GPUSIM_UNTIMED;
}

void
gpusim_ops_label(struct gpusim_ops *o, struct gpusim_stream stream, const char *label)
{
	const size_t most = sizeof o->named[0].label;

	if (!o || o->err.rc != RC_OK)
		return;
	label = label ? label : "";
	if (stream.id >= OPS_STREAMS) {
		err_set(&o->err, RC_INVAL, "stream %llu: must be 0 to %d",
			(unsigned long long)stream.id, OPS_STREAMS - 1);
	} else if (strlen(label) >= most) {
		err_set(&o->err, RC_INVAL, "label '%.64s': longer than %zu letters", label,
			most - 1);
	} else {
		memcpy(o->named[stream.id].label, label, strlen(label) + 1);
		o->named[stream.id].phase = *label ? ++o->nphases : 0;
	}
}

void
gpusim_ops_launch(struct gpusim_ops *o, uint32_t rank, struct gpusim_stream stream,
		  const char *kernel, const struct gpusim_arg *args, size_t nargs)
{
	GpuSim__KernelArg arg[WIRE_MAX_ARGS], *argp[WIRE_MAX_ARGS];
	GpuSim__Launch l = GPU_SIM__LAUNCH__INIT;
	GpuSim__Op op = GPU_SIM__OP__INIT;

	if (nargs > WIRE_MAX_ARGS || strlen(kernel) >= WIRE_NAME_MAX) {
		if (o)
			err_set(&o->err, RC_INVAL, "kernel %.64s: too many arguments, or too long",
				kernel);
		return;
	}
	for (size_t i = 0; i < nargs; i++) {
		arg[i] = (GpuSim__KernelArg)GPU_SIM__KERNEL_ARG__INIT;
		arg[i].name = (char *)args[i].name;
		arg[i].step = args[i].step;
		if (args[i].is_real) {
			arg[i].value_case = GPU_SIM__KERNEL_ARG__VALUE_F;
			arg[i].f = args[i].f;
		} else {
			arg[i].value_case = GPU_SIM__KERNEL_ARG__VALUE_U;
			arg[i].u = args[i].u;
		}
		argp[i] = &arg[i];
	}
	l.kernel = (char *)kernel;
	l.args = argp;
	l.n_args = nargs;
	op.kind_case = GPU_SIM__OP__KIND_LAUNCH;
	op.launch = &l;
	add(o, rank, stream, &op);
}

void
gpusim_ops_memset(struct gpusim_ops *o, uint32_t rank, struct gpusim_stream stream,
		  struct gpusim_addr addr, int value, uint64_t nbytes)
{
	GpuSim__Memset m = GPU_SIM__MEMSET__INIT;
	GpuSim__Op op = GPU_SIM__OP__INIT;

	m.addr = addr.addr;
	m.nbytes = nbytes;
	m.value = (uint32_t)(value & 0xff);
	op.kind_case = GPU_SIM__OP__KIND_MEMSET;
	op.memset = &m;
	add(o, rank, stream, &op);
}

void
gpusim_ops_copy(struct gpusim_ops *o, uint32_t rank, struct gpusim_stream stream,
		struct gpusim_addr dst, struct gpusim_addr src, uint64_t nbytes)
{
	GpuSim__Copy m = GPU_SIM__COPY__INIT;
	GpuSim__Op op = GPU_SIM__OP__INIT;

	m.dst = dst.addr;
	m.src = src.addr;
	m.nbytes = nbytes;
	op.kind_case = GPU_SIM__OP__KIND_COPY;
	op.copy = &m;
	add(o, rank, stream, &op);
}

static void
add_event(struct gpusim_ops *o, uint32_t rank, struct gpusim_stream stream,
	  struct gpusim_event event, GpuSim__Op__KindCase kind)
{
	GpuSim__Event m = GPU_SIM__EVENT__INIT;
	GpuSim__Op op = GPU_SIM__OP__INIT;

	m.id = event.id;
	op.kind_case = kind;
	op.record = &m; /* record and wait share the field */
	add(o, rank, stream, &op);
}

void
gpusim_ops_record(struct gpusim_ops *o, uint32_t rank, struct gpusim_stream stream,
		  struct gpusim_event event)
{
	add_event(o, rank, stream, event, GPU_SIM__OP__KIND_RECORD);
}

void
gpusim_ops_wait(struct gpusim_ops *o, uint32_t rank, struct gpusim_stream stream,
		struct gpusim_event event)
{
	add_event(o, rank, stream, event, GPU_SIM__OP__KIND_WAIT);
}

/* gpu_sim.proto has the numbers of gpusim.h. */
#define SAME_DTYPE(constant, ...)                                                     \
	_Static_assert((int)GPUSIM_##constant == (int)GPU_SIM__DATA_TYPE__##constant, \
		       "a DataType of another number");
#define SAME_REDOP(constant, ...)                                                     \
	_Static_assert((int)GPUSIM_##constant == (int)GPU_SIM__REDUCE_OP__##constant, \
		       "a ReduceOp of another number");
DTYPES(SAME_DTYPE)
REDOPS(SAME_REDOP, )

/* The end of the last part; saturating, so that too large values are refused. */
static uint64_t
end_of(const uint64_t *count, const uint64_t *displ, uint32_t n)
{
	uint64_t end = 0, last = 0;

	for (uint32_t r = 0; r < n; r++) {
		uint64_t at = displ ? displ[r] : last;

		if (__builtin_add_overflow(at, count[r], &last))
			last = UINT64_MAX;
		if (count[r] && last > end)
			end = last;
	}
	return end;
}

void
ops_collective_of(struct gpusim_ops *o, uint32_t rank, const struct gpusim_collective *c)
{
	GpuSim__Coll m = GPU_SIM__COLL__INIT;
	GpuSim__Op op = GPU_SIM__OP__INIT;
	uint32_t n = c->nmembers ? c->nmembers : o ? o->nranks : 0;
	bool scaled = coll_reduces(c->coll) && c->redop == GPUSIM_PREMULSUM;

	if (scaled && c->scalar)
		memcpy(&m.scalar, c->scalar, dtype_size(c->dtype));
	else if (scaled && o && o->err.rc == RC_OK)
		err_set(&o->err, RC_INVAL,
			"premulsum needs a factor for each rank: gpusim_collective.scalar");
	m.coll = (GpuSim__Collective)c->coll;
	m.algo = (char *)(c->algo ? c->algo : "");
	m.dtype = (GpuSim__DataType)c->dtype;
	m.redop = (GpuSim__ReduceOp)c->redop;
	m.nelem = c->nelem;
	m.root = c->root;
	m.chunkbytes = c->chunk_bytes;
	m.deterministic = c->deterministic || (o && o->deterministic);
	m.sendaddr = c->send ? c->send->addr : 0;
	m.recvaddr = c->recv ? c->recv->addr : 0;
	if (o && c->counts) { /* of a v-variant, as one rank has them */
		m.nelem = end_of(c->counts, c->displs, n);
		m.counts = (uint64_t *)c->counts;
		m.n_counts = n;
		m.recvcounts = (uint64_t *)c->recv_counts;
		m.n_recvcounts = c->recv_counts ? n : 0;
		m.displs = (uint64_t *)c->displs;
		m.n_displs = c->displs ? n : 0;
		m.recvdispls = (uint64_t *)c->recv_displs;
		m.n_recvdispls = c->recv_displs ? n : 0;
	}
	m.members = (uint32_t *)c->members;
	m.n_members = c->nmembers;
	m.group = (char *)(c->group ? c->group : "");
	op.kind_case = GPU_SIM__OP__KIND_COLL;
	op.coll = &m;
	if (o)
		o->meets |= !coll_is_sendrecv(c->coll);
	add(o, rank, c->stream, &op);
}

/* The rank with place r among those that take part. */
static uint32_t
member(const struct gpusim_collective *c, uint32_t r)
{
	return c->nmembers ? c->members[r] : r;
}

/* alltoall of a matrix of counts: each rank gets its row and its column. */
static void
add_matrix(struct gpusim_ops *o, struct gpusim_collective *c, uint32_t n)
{
	const uint64_t *counts = c->counts, *displs = c->displs, *recv_displs = c->recv_displs;
	uint64_t *column = alloc_zeroed(n, sizeof *column);

	if (!column) {
		err_set(&o->err, RC_NOMEM, "out of memory");
		return;
	}
	c->recv_counts = column;
	for (uint32_t r = 0; r < n; r++) {
		size_t row = (size_t)r * n;

		for (uint32_t q = 0; q < n; q++)
			column[q] = counts[(size_t)q * n + r];
		c->counts = counts + row;
		c->displs = displs ? displs + row : NULL;
		c->recv_displs = recv_displs ? recv_displs + row : NULL;
		ops_collective_of(o, member(c, r), c);
		c->send += c->send != NULL;
		c->recv += c->recv != NULL;
	}
	free(column);
}

/* The coordinator checks the rest. */
static enum rc
check_members(const struct gpusim_ops *o, const struct gpusim_collective *c, struct err *err)
{
	if (!c->nmembers)
		return RC_OK;
	if (!c->members)
		return err_set(err, RC_INVAL, "%s: nmembers is %u, but members is NULL",
			       coll_name(c->coll), c->nmembers);
	if (c->nmembers > o->nranks)
		return err_set(err, RC_INVAL, "%s: %u members, but there are %u ranks",
			       coll_name(c->coll), c->nmembers, o->nranks);
	return RC_OK;
}

void
gpusim_ops_collective(struct gpusim_ops *o, const struct gpusim_collective *given)
{
	struct gpusim_collective c;
	uint32_t n;

	if (!o || o->err.rc != RC_OK)
		return;
	if (client_take("gpusim_collective", given, &c, sizeof c) != RC_OK) {
		o->err = *client_err();
		return;
	}
	if (check_members(o, &c, &o->err) != RC_OK)
		return;
	if (coll_is_sendrecv(c.coll)) {
		ops_collective_of(o, c.rank, &c);
		return;
	}
	n = c.nmembers ? c.nmembers : o->nranks;
	if (c.coll == GPUSIM_ALLTOALL && c.counts) {
		add_matrix(o, &c, n);
		return;
	}
	for (uint32_t r = 0; r < n; r++) {
		ops_collective_of(o, member(&c, r), &c);
		if (c.scalar)
			c.scalar = (const char *)c.scalar + dtype_size(c.dtype);
		c.send += c.send != NULL;
		c.recv += c.recv != NULL;
	}
}
