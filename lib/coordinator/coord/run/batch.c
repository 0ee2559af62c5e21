/*
 * batch.c - the operations of one run or graph, gathered from its submits: matches sends with receives and
 * numbers all operations.
 *
 * The k-th send of (src, dst) in a batch matches its k-th receive. Such pairs, and collectives, get
 * numbers 0, 1, 2 ... (Coll.opOffset) in the order in which the batch first names them. A send or receive
 * without a match gets the next number of its own kind in the pair's own numbering (Coll.p2p), so that it
 * matches one of another submit.
 */
#include "coord/run/run_impl.h"

#include <inttypes.h>
#include <stdlib.h>

#include "mem/dtype.h"

/* A rank's packed operations fit a control message with the envelope. */
#define BATCH_RANK_MAX (WIRE_CONTROL_MAX - 1024)

/*
 * ---- the operation of a rank's list that carries the schedule of an algorithm from a file: the first that
 * runs it. The others name that one (Coll.scheduleOf), so a list of a thousand calls carries a schedule once.
 */

/* The carriers of one algorithm for one place among members, or for the communicator's ranks. */
struct carried {
	uint64_t id; /* algo_id */
	uint32_t place;
#define EACH_RANK UINT32_MAX
	uint32_t *at; /* by rank: 1 + the index of the carrier; 0: none yet */
};

static struct carried *
carried_of(struct batch *b, uint64_t id, uint32_t place)
{
	struct carried *v;

	for (size_t i = 0; i < b->ncarried; i++)
		if (b->carried[i].id == id && b->carried[i].place == place)
			return &b->carried[i];
	v = alloc_resize(b->carried, b->ncarried + 1, sizeof *v);
	if (!v)
		return NULL;
	b->carried = v;
	v += b->ncarried;
	*v = (struct carried){
	    .id = id, .place = place, .at = alloc_zeroed(comm_nranks(b->comm), sizeof *v->at)};
	if (!v->at)
		return NULL;
	b->ncarried++;
	return v;
}

static bool
carry_here(struct batch *b, uint32_t rank, uint32_t place, const struct tune_file *f, size_t index,
	   uint32_t *of)
{
	struct carried *v = carried_of(b, algo_id(f), place);

	if (!v)
		return true;
	if (!v->at[rank])
		v->at[rank] = (uint32_t)index + 1;
	*of = v->at[rank];
	return *of == index + 1;
}

static void
carry_forget(struct batch *b, bool all)
{
	for (size_t i = 0; i < b->ncarried; i++)
		for (uint32_t r = 0; r < comm_nranks(b->comm); r++)
			if (all || b->carried[i].at[r] > b->rank[r].nops)
				b->carried[i].at[r] = 0;
}

static void
carry_fini(struct batch *b)
{
	for (size_t i = 0; i < b->ncarried; i++)
		free(b->carried[i].at);
	free(b->carried);
}

enum rc
batch_init(const struct coord *c, struct batch *b, struct comm *comm, struct err *err)
{
	*b = (struct batch){.tuner = c->cfg.tuner,
			    .files = algos_files(c),
			    .comm = comm,
			    .links = comm_links(comm),
			    .rank = alloc_zeroed(comm_nranks(comm), sizeof *b->rank)};
	return b->rank ? RC_OK : comm_nomem(comm, err);
}

void
batch_fini(struct batch *b)
{
	for (size_t i = 0; i < b->pair_cap; i++) {
		free(b->pair[i].nbytes[DIR_SEND]);
		free(b->pair[i].nbytes[DIR_RECV]);
		free(b->pair[i].number);
	}
	free(b->pair);
	carry_fini(b);
	free(b->rank);
	pairs_fini(&b->pairs);
	*b = (struct batch){0};
}

static size_t
met(const struct batch_pair *p)
{
	return p->n[DIR_SEND] < p->n[DIR_RECV] ? p->n[DIR_SEND] : p->n[DIR_RECV];
}

uint64_t
batch_numbered(const struct batch *b)
{
	uint64_t n = b->ncoll;

	for (size_t i = 0; i < b->pairs.n && i < b->pair_cap; i++)
		n += met(&b->pair[i]);
	return n;
}

uint64_t
batch_loose(const struct batch *b)
{
	uint64_t n = 0;

	for (size_t i = 0; i < b->pairs.n && i < b->pair_cap; i++)
		n += b->pair[i].n[DIR_SEND] + b->pair[i].n[DIR_RECV] - 2 * met(&b->pair[i]);
	return n;
}

bool
batch_first_loose(const struct batch *b, uint32_t *src, uint32_t *dst, enum sendrecv_dir *dir)
{
	for (size_t i = 0; i < b->pairs.n && i < b->pair_cap; i++) {
		const struct batch_pair *p = &b->pair[i];

		if (p->n[DIR_SEND] == p->n[DIR_RECV])
			continue;
		*src = (uint32_t)(b->pairs.key[i] >> 32);
		*dst = (uint32_t)b->pairs.key[i];
		*dir = p->n[DIR_SEND] > p->n[DIR_RECV] ? DIR_SEND : DIR_RECV;
		return true;
	}
	return false;
}

/* ---- adding */

struct sendrecv {
	uint32_t rank, src, dst;
	enum sendrecv_dir dir;
	size_t index; /* of the operation in the rank's list */
	uint64_t nbytes;
};

/* The position of a walk over a submit's sends and receives; {0} is the start. */
struct walk {
	size_t r, i;
};

static void
sendrecv_of(uint32_t rank, const GpuSim__Coll *k, struct sendrecv *out)
{
	out->rank = rank;
	out->dir = k->coll == GPU_SIM__COLLECTIVE__SEND ? DIR_SEND : DIR_RECV;
	out->src = out->dir == DIR_SEND ? rank : k->root;
	out->dst = out->dir == DIR_SEND ? k->root : rank;
	out->nbytes = k->nelem * dtype_size((enum gpusim_dtype)k->dtype);
}

static bool
next_sendrecv(const GpuSim__SubmitRequest *s, struct walk *w, struct sendrecv *out)
{
	for (; w->r < s->n_ranks; w->r++, w->i = 0)
		while (w->i < s->ranks[w->r]->n_ops) {
			const GpuSim__Op *op = s->ranks[w->r]->ops[w->i++];

			if (op->kind_case != GPU_SIM__OP__KIND_COLL || !is_sendrecv(op->coll))
				continue;
			sendrecv_of(s->ranks[w->r]->rank, op->coll, out);
			out->index = w->i - 1;
			return true;
		}
	return false;
}

static struct batch_pair *
pair_of(struct batch *b, uint32_t src, uint32_t dst)
{
	struct batch_pair *v;
	size_t i;

	if (pairs_index(&b->pairs, src, dst, &i) != RC_OK)
		return NULL;
	v = pairs_beside(&b->pairs, i, b->pair, &b->pair_cap, sizeof *v);
	if (!v)
		return NULL;
	b->pair = v;
	return &v[i];
}

static enum rc
take_sendrecv(struct batch *b, const struct sendrecv *op, struct err *err)
{
	struct batch_pair *p = pair_of(b, op->src, op->dst);
	enum sendrecv_dir other = op->dir == DIR_SEND ? DIR_RECV : DIR_SEND;
	size_t k;

	if (!p)
		return err_set(err, RC_NOMEM, "out of memory");
	k = p->n[op->dir];
	if (k < p->n[other] && p->nbytes[other][k] != op->nbytes)
		return err_set(err, RC_INVAL,
			       "rank %u operation %zu: %s of %" PRIu64
			       " bytes, but rank %u's %s has %" PRIu64,
			       op->rank, op->index, op->dir == DIR_SEND ? "send" : "recv",
			       op->nbytes, op->dir == DIR_SEND ? op->dst : op->src,
			       op->dir == DIR_SEND ? "recv" : "send", p->nbytes[other][k]);
	if (!alloc_room(&p->nbytes[op->dir], k, &p->cap[op->dir], sizeof *p->nbytes[op->dir]))
		return err_set(err, RC_NOMEM, "out of memory");
	p->nbytes[op->dir][p->n[op->dir]++] = op->nbytes;
	return RC_OK;
}

/* Choose algorithm and chunk size of a rank's operation `index` where the caller left them open. They follow
 * from fields that all ranks give alike, so all choose alike. An algorithm from a file brings its schedule. */
static enum rc
choose(struct batch *b, uint32_t rank, size_t index, GpuSim__Coll *k, struct err *err)
{
	const struct tune_file *named = tune_file_find(b->files, k->algo);
	struct tune_ask ask = {.args = run_args(b->comm, rank, k),
			       .transport = comm_by_memory(b->comm) ? TUNE_P2P : TUNE_NET,
			       .algo = k->algo,
			       .chunk_bytes = k->chunkbytes,
			       .no_stores = comm_recovers(b->comm),
			       .parts = k->n_counts > 0,
			       .files = b->files,
			       .links = b->links};
	struct tune_answer answer;
	const struct plan_algo *dflt;

	if (algo_outgrown(b->comm, named)) {
		b->outgrown = named;
		k->algo = (char *)"";
		ask.algo = k->algo;
	}
	/* Only the default supports these (plan.h). Ranks' own counts must not choose the size of
	 * messages. */
	if (k->n_displs || k->n_recvcounts) {
		if (plan_algo_find(ask.args.coll, k->algo, &dflt, NULL) == RC_OK)
			k->algo = (char *)dflt->name;
		return RC_OK;
	}
	if (tuner_choose(b->tuner, &ask, &answer, err) != RC_OK)
		return err->rc;
	k->algo = (char *)answer.algo->name;
	k->chunkbytes = answer.chunk_bytes;
	if (answer.file) {
		const struct buf *s = algo_schedule(answer.file, ask.args.rank);

		k->algo = (char *)answer.file->name;
		if (carry_here(b, rank, k->n_members ? ask.args.rank : EACH_RANK, answer.file,
			       index, &k->scheduleof)) {
			k->schedule = (ProtobufCBinaryData){s->len, (uint8_t *)s->data};
			k->scheduleof = 0;
		}
	}
	return RC_OK;
}

/* An upper bound on the bytes of a rank's encoded operations. */
static size_t
packed_bound(struct batch *b, const GpuSim__RankOps *r)
{
	size_t n = 0;

	for (size_t i = 0; i < r->n_ops; i++) {
		const GpuSim__Op *op = r->ops[i];
		GpuSim__Coll k;
		struct err err;

		n += gpu_sim__op__get_packed_size(op) + 64;
		if (!b->files->n || op->kind_case != GPU_SIM__OP__KIND_COLL ||
		    is_sendrecv(op->coll))
			continue;
		k = *op->coll;
		choose(b, r->rank, b->rank[r->rank].nops + i, &k, &err);
		n += k.schedule.len + TUNE_FILE_NAME; /* that it will carry */
	}
	return n;
}

static enum rc
too_long(uint32_t rank, struct err *err)
{
	return err_set(err, RC_INVAL, "rank %u: its operations take more than %u bytes", rank,
		       BATCH_RANK_MAX);
}

enum rc
batch_add(struct batch *b, const GpuSim__SubmitRequest *s, struct err *err)
{
	size_t ncoll;
	enum rc rc = submit_check(b->comm, b->files, s, &ncoll, err);

	carry_forget(b, false);
	for (size_t i = 0; rc == RC_OK && i < s->n_ranks; i++) {
		const GpuSim__RankOps *r = s->ranks[i];

		if (b->rank[r->rank].nops + r->n_ops > WIRE_MAX_OPS)
			rc = err_set(err, RC_INVAL,
				     "rank %u: %zu operations in the group; the limit is %u",
				     r->rank, b->rank[r->rank].nops + r->n_ops, WIRE_MAX_OPS);
		else if (b->rank[r->rank].nbytes + packed_bound(b, r) > BATCH_RANK_MAX)
			rc = too_long(r->rank, err);
	}
	if (rc == RC_OK) {
		struct walk w = {0};
		struct sendrecv op;
		size_t n = 0;

		while (next_sendrecv(s, &w, &op) && (rc = take_sendrecv(b, &op, err)) == RC_OK)
			n++;
		w = (struct walk){0}; /* if one was refused, take the others back */
		while (rc != RC_OK && n-- > 0 && next_sendrecv(s, &w, &op))
			pair_of(b, op.src, op.dst)->n[op.dir]--;
	}
	for (size_t i = 0; rc == RC_OK && i < s->n_ranks; i++) {
		const GpuSim__RankOps *r = s->ranks[i];

		b->rank[r->rank].nbytes += packed_bound(b, r);
		b->rank[r->rank].nops += r->n_ops;
		b->nops += r->n_ops;
		for (size_t k = 0; k < r->n_ops; k++)
			b->npure += r->ops[k]->kind_case == GPU_SIM__OP__KIND_COLL;
	}
	if (rc == RC_OK)
		gist_add(&b->gist, s);
	if (rc == RC_OK)
		b->ncoll += ncoll;
	return rc;
}

enum rc
batch_add_parts(struct batch *b, const struct group_part *parts, struct err *err)
{
	enum rc rc = RC_OK;

	for (; parts && rc == RC_OK; parts = parts->next) {
		GpuSim__SubmitRequest *s = part_unpack(parts);

		rc = s ? batch_add(b, s, err) : comm_nomem(b->comm, err);
		gpu_sim__submit_request__free_unpacked(s, NULL);
	}
	return rc;
}

/* ---- numbering */

void
batch_rewind(struct batch *b)
{
	b->next = 0;
	carry_forget(b, true);
	for (uint32_t r = 0; r < comm_nranks(b->comm); r++)
		b->rank[r].encoded = 0;
	for (size_t i = 0; i < b->pairs.n && i < b->pair_cap; i++) {
		struct batch_pair *p = &b->pair[i];

		p->seen[DIR_SEND] = p->seen[DIR_RECV] = 0;
		free(p->number);
		p->number = NULL;
	}
}

static enum rc
number_sendrecv(struct batch *b, uint32_t rank, GpuSim__Coll *k)
{
	struct sendrecv op;
	struct batch_pair *p;
	struct pair_count *count;
	size_t nth;

	sendrecv_of(rank, k, &op);
	p = pair_of(b, op.src, op.dst);
	if (!p)
		return RC_NOMEM;
	nth = p->seen[op.dir]++;
	if (nth >= met(p)) {
		count = work_pair(comm_work(b->comm), op.src, op.dst);
		if (!count)
			return RC_NOMEM;
		k->p2p = count->n[op.dir] + (nth - met(p)) + 1;
		return RC_OK;
	}
	if (!p->number) {
		p->number = alloc_zeroed(met(p), sizeof *p->number);
		if (!p->number)
			return RC_NOMEM;
	}
	if (!p->number[nth])
		p->number[nth] = ++b->next;
	k->opoffset = p->number[nth] - 1;
	return RC_OK;
}

/* Encode one rank's operations. */
static enum rc
encode_rank(struct batch *b, const GpuSim__RankOps *r, uint32_t field, struct member_sets *sets,
	    struct buf *out, struct err *err)
{
	size_t *index = &b->rank[r->rank].encoded;

	for (size_t i = 0; i < r->n_ops; i++, ++*index) {
		GpuSim__Op op = *r->ops[i];
		GpuSim__Coll k;

		if (op.kind_case == GPU_SIM__OP__KIND_COLL) {
			k = *op.coll;
			op.coll = &k;
			k.opoffset = k.p2p = 0;
			if (choose(b, r->rank, *index, &k, err) != RC_OK)
				return err_prefix(err, "rank %u operation %zu", r->rank, *index);
			if (is_sendrecv(&k)) {
				if (number_sendrecv(b, r->rank, &k) != RC_OK)
					return comm_nomem(b->comm, err);
			} else {
				struct met_coll *e =
				    member_sets_next(sets, r->rank, r->ops[i]->coll);

				if (!e)
					return comm_nomem(b->comm, err);
				if (!e->number)
					e->number = ++b->next;
				k.opoffset = e->number - 1;
			}
		}
		if (!buf_pack_field(out, field, &op.base))
			return comm_nomem(b->comm, err);
	}
	if (out->len > BATCH_RANK_MAX)
		return too_long(r->rank, err);
	return RC_OK;
}

enum rc
batch_encode(struct batch *b, const GpuSim__SubmitRequest *s, uint32_t field, struct buf *ops,
	     struct err *err)
{
	struct member_sets sets = {0};
	enum rc rc = RC_OK;

	for (size_t i = 0; rc == RC_OK && i < s->n_ranks; i++)
		rc = encode_rank(b, s->ranks[i], field, &sets, &ops[s->ranks[i]->rank], err);
	member_sets_fini(&sets);
	return rc;
}

void
bufs_free(struct buf *b, size_t n)
{
	for (size_t i = 0; b && i < n; i++)
		buf_fini(&b[i]);
	free(b);
}

void
batch_commit(const struct batch *b)
{
	for (size_t i = 0; i < b->pairs.n && i < b->pair_cap; i++) {
		const struct batch_pair *p = &b->pair[i];
		struct pair_count *count;

		if (p->n[DIR_SEND] == p->n[DIR_RECV])
			continue;
		count = work_pair(comm_work(b->comm), (uint32_t)(b->pairs.key[i] >> 32),
				  (uint32_t)b->pairs.key[i]);
		comm_work(b->comm)->recorded.pairs_new = true;
		count->n[DIR_SEND] += p->n[DIR_SEND] - met(p);
		count->n[DIR_RECV] += p->n[DIR_RECV] - met(p);
	}
}
