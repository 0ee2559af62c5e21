#include "replay/story.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "coll/plan.h"
#include "coll/tune.h"
#include "mem/dtype.h"
#include "tape/folder.h"
#include "tape/tape.h"
#include "wire/crc32c.h"
#include "wire/frame.h"

/* The current file. */
struct reading {
	struct story *s;
	const char *path;
	uint32_t file;
	uint32_t proc;	 /* STORY_NONE before a device begins */
	uint64_t record; /* for messages */
	size_t first_op; /* of the file */
	size_t *room;	 /* of the five arrays: their capacities */
};

static enum rc
bad(const struct reading *r, const char *why, struct err *err)
{
	return err_set(err, RC_BADDATA, "%s: record at byte %" PRIu64 ": %s", r->path, r->record,
		       why);
}

static enum rc
take_begin(struct reading *r, const GpuSim__TapeBegin *m, struct err *err)
{
	struct story *s = r->s;

	if (m->role != GPU_SIM__TAPE_ROLE__TAPE_DEVICE)
		return RC_OK;
	if (s->nprocs == STORY_MAX_DEVS)
		return bad(r, "too many processes", err);
	must_room(&s->proc, s->nprocs, &r->room[0], sizeof *s->proc);
	r->proc = (uint32_t)s->nprocs;
	s->proc[s->nprocs++] =
	    (struct story_proc){.file = r->file,
				.ordinal = m->ordinal,
				.device = m->deviceid,
				.by_memory = !*m->memprivate,
				.by_tcp = strncmp(m->dataaddress, "ipc:", 4) != 0,
				.last = STORY_NONE};
	s->with_data |= m->withdata;
	return RC_OK;
}

/* Find a communicator's epoch, latest first; STORY_NONE: unknown. */
static uint32_t
find_comm(const struct story *s, uint64_t id, uint32_t epoch)
{
	for (size_t i = s->ncomms; i-- > 0;)
		if (s->comm[i].id == id && s->comm[i].epoch == epoch)
			return (uint32_t)i;
	return STORY_NONE;
}

static enum rc
take_comm(struct reading *r, const GpuSim__TapeComm *m, struct err *err)
{
	struct story *s = r->s;
	uint32_t at = find_comm(s, m->commid, m->epoch);

	if (r->proc == STORY_NONE)
		return RC_OK; /* the coordinator's record: devices record the same */
	if (m->nranks == 0 || m->nranks > WIRE_MAX_RANKS || m->rank >= m->nranks)
		return bad(r, "no such rank", err);
	if (at == STORY_NONE) {
		struct story_comm *c;

		must_room(&s->comm, s->ncomms, &r->room[1], sizeof *s->comm);
		c = &s->comm[s->ncomms];
		*c = (struct story_comm){.id = m->commid,
					 .epoch = m->epoch,
					 .nranks = m->nranks,
					 .op_timeout_ms = m->optimeoutms,
					 .queued = m->queued,
					 .proc = must_alloc(m->nranks, sizeof *c->proc)};
		for (uint32_t k = 0; k < m->nranks; k++)
			c->proc[k] = STORY_NONE;
		at = (uint32_t)s->ncomms++;
	}
	if (s->comm[at].nranks != m->nranks)
		return bad(r, "the communicator's size differs from other files", err);
	s->comm[at].proc[m->rank] = r->proc;
	return RC_OK;
}

/* Check and take the four lists. */
static enum rc
take_parts(const struct reading *r, const GpuSim__TapeOp *m, struct story_op *o, struct err *err)
{
	size_t n = m->n_partat;

	if (n == 0)
		return RC_OK;
	if (n != m->nranks || m->n_partcount != n || (m->n_recvpartat && m->n_recvpartat != n) ||
	    m->n_recvpartcount != m->n_recvpartat)
		return bad(r, "the lists of parts do not have one entry a rank", err);
	o->parts = must_alloc(4 * n, sizeof *o->parts);
	memcpy(o->parts, m->partat, n * sizeof *o->parts);
	memcpy(o->parts + n, m->partcount, n * sizeof *o->parts);
	o->recv_parts = m->n_recvpartat != 0;
	if (o->recv_parts) {
		memcpy(o->parts + 2 * n, m->recvpartat, n * sizeof *o->parts);
		memcpy(o->parts + 3 * n, m->recvpartcount, n * sizeof *o->parts);
	}
	return RC_OK;
}

/* ---- algorithms of files */

/* Find an algorithm by its schedule's digest; add it if it is new. */
static struct story_algo *
algo_of(struct reading *r, uint64_t schedule)
{
	struct story *s = r->s;

	for (size_t i = 0; i < s->nalgos; i++)
		if (s->algo[i].schedule == schedule)
			return &s->algo[i];
	must_room(&s->algo, s->nalgos, &r->room[4], sizeof *s->algo);
	s->algo[s->nalgos] = (struct story_algo){.schedule = schedule};
	return &s->algo[s->nalgos++];
}

/* A file may be recorded more than once: count it once. */
static enum rc
take_algo(struct reading *r, const GpuSim__TapeAlgo *m, struct err *err)
{
	struct story_algo *a = algo_of(r, m->schedule);

	if (m->nbytes > STORY_MAX_ALGO || m->offset > m->nbytes ||
	    m->text.len > m->nbytes - m->offset || (a->text && m->nbytes != a->nbytes))
		return bad(r, "an algorithm with an impossible size", err);
	if (!a->text)
		a->text = must_alloc(m->nbytes + 1, 1);
	a->nbytes = m->nbytes;
	if (m->offset != a->have || !m->text.len)
		return RC_OK;
	memcpy(a->text + a->have, m->text.data, m->text.len);
	a->have += m->text.len;
	return RC_OK;
}

/* The name of an operation's algorithm; valid as long as the story. */
static enum rc
name_algo(struct reading *r, const GpuSim__TapeOp *m, const char **name, struct err *err)
{
	const struct plan_algo *built_in;
	struct story_algo *a;
	struct err why = {0};

	if (!m->schedule) {
		if (plan_algo_find((enum gpusim_coll)m->coll, m->algo, &built_in, &why) != RC_OK)
			return bad(r, why.text, err);
		*name = built_in->name;
		return RC_OK;
	}
	if (!tune_is_name(m->algo))
		return bad(r, "an algorithm with an impossible name", err);
	a = algo_of(r, m->schedule);
	if (!a->name)
		a->name = must_strdup(m->algo);
	*name = a->name;
	return RC_OK;
}

static enum rc
check_op(struct reading *r, const GpuSim__TapeOp *m, uint32_t comm, const char **algo,
	 struct err *err)
{
	const struct story *s = r->s;

	if (r->proc == STORY_NONE)
		return bad(r, "an operation before its device", err);
	if (comm == STORY_NONE || s->comm[comm].nranks != m->nranks || m->rank >= m->nranks ||
	    s->comm[comm].proc[m->rank] != r->proc)
		return bad(r, "an operation of a rank that the device does not have", err);
	if (m->coll >= GPUSIM_NCOLLS || m->dtype >= GPUSIM_NDTYPES || m->redop >= GPUSIM_NREDOPS ||
	    m->root >= m->nranks)
		return bad(r, "an impossible operation", err);
	if (m->inbytes > UINT64_MAX / 4 || m->outbytes > UINT64_MAX / 4 ||
	    m->inbytes % dtype_size((enum gpusim_dtype)m->dtype))
		return bad(r, "an operation with an impossible size", err);
	if (m->n_members)
		return bad(r,
			   "a collective of some ranks of a communicator: replay plays only those "
			   "of all ranks",
			   err);
	if (s->nops == STORY_MAX_OPS)
		return bad(r, "too many operations", err);
	return name_algo(r, m, algo, err);
}

static enum rc
take_op(struct reading *r, const GpuSim__TapeOp *m, struct err *err)
{
	struct story *s = r->s;
	uint32_t comm = find_comm(s, m->commid, m->epoch);
	const char *algo = NULL;
	struct story_op o;
	enum rc rc = check_op(r, m, comm, &algo, err);

	if (rc != RC_OK)
		return rc;
	must_room(&s->op, s->nops, &r->room[2], sizeof *s->op);
	o = (struct story_op){.proc = r->proc,
			      .comm = comm,
			      .rank = m->rank,
			      .before = STORY_NONE,
			      .number = m->number,
			      .op = m->op,
			      .lane = m->queue ? m->queue : m->stream % 64,
			      .by_queue = m->queue != 0,
			      .set = m->set,
			      .nelem = m->nelem,
			      .chunk_bytes = m->chunkbytes,
			      .scalar = m->scalar,
			      .in_bytes = m->inbytes,
			      .out_bytes = m->outbytes,
			      .at_ns = m->atns,
			      .root = m->root,
			      .steps = m->steps,
			      .in_crc = m->incrc,
			      .before_crc = m->beforecrc,
			      .coll = (uint8_t)m->coll,
			      .dtype = (uint8_t)m->dtype,
			      .redop = (uint8_t)m->redop,
			      .in_place = m->inplace,
			      .gaps = m->gaps,
			      .deterministic = m->deterministic,
			      .algo = algo,
			      .schedule = m->schedule};
	rc = take_parts(r, m, &o, err);
	if (rc != RC_OK)
		return rc;
	s->proc[r->proc].last = (uint32_t)s->nops;
	s->proc[r->proc].nops++;
	s->comm[comm].nops++;
	s->op[s->nops++] = o;
	return RC_OK;
}

/* Find an operation of the file by number, from the last process back; NULL: none. */
static struct story_op *
find_op(const struct reading *r, uint64_t number)
{
	struct story *s = r->s;

	for (size_t i = s->nops; i-- > r->first_op;)
		if (s->op[i].number == number)
			return &s->op[i];
	return NULL;
}

static enum rc
take_data(const struct reading *r, const GpuSim__TapeData *m, struct err *err)
{
	struct story_op *o = find_op(r, m->number);

	if (!o || m->at != (m->before ? o->nbefore : o->nin) ||
	    m->data.len > (m->before ? o->out_bytes : o->in_bytes) - m->at)
		return bad(r, "data without an operation, or out of order", err);
	if (!o->data_at)
		o->data_at = r->record;
	*(m->before ? &o->nbefore : &o->nin) += m->data.len;
	return RC_OK;
}

static enum rc
take_end(const struct reading *r, const GpuSim__TapeEnd *m, struct err *err)
{
	struct story_op *o = find_op(r, m->number);

	if (!o || o->state != STORY_OPEN)
		return bad(r, "an end without an operation", err);
	o->state = m->rc == GPUSIM_OK ? STORY_GOOD : STORY_FAILED;
	o->rc = m->rc;
	o->out_crc = m->outcrc;
	o->end_ns = m->atns;
	if (m->rc != GPUSIM_OK)
		o->text = must_strdup(m->text);
	return RC_OK;
}

static enum rc
take_fault(struct reading *r, const GpuSim__TapeFault *m, struct err *err)
{
	struct story *s = r->s;
	struct story_fault f = {.proc = r->proc, .op = STORY_NONE, .step = m->step};

	if (r->proc == STORY_NONE || m->kind >= GPUSIM_NFAULTS)
		return bad(r, "a fault without a device, or of an unknown kind", err);
	for (size_t i = s->nops; !m->now && i-- > r->first_op && f.op == STORY_NONE;)
		if (s->op[i].op == m->op && s->op[i].coll == m->coll &&
		    s->comm[s->op[i].comm].id == m->commid)
			f.op = (uint32_t)i;
	if (!m->now && f.op == STORY_NONE)
		return bad(r, "a fault without an operation", err);
	must_room(&s->fault, s->nfaults, &r->room[3], sizeof *s->fault);
	f.position = s->proc[r->proc].nops;
	f.f = (struct gpusim_fault){.kind = (enum gpusim_fault_kind)m->kind,
				    .coll = -1,
				    .for_ns = m->forns,
				    .by_ns = m->byns,
				    .count = m->count,
				    .p = m->p,
				    .seed = m->seed,
				    .to_peer = m->topeer != 0,
				    .peer = m->topeer ? m->topeer - 1 : 0};
	s->fault[s->nfaults++] = f;
	return RC_OK;
}

static enum rc
take(struct reading *r, const GpuSim__TapeRecord *m, struct err *err)
{
	switch (m->body_case) {
	case GPU_SIM__TAPE_RECORD__BODY_BEGIN:
		return take_begin(r, m->begin, err);
	case GPU_SIM__TAPE_RECORD__BODY_COMM:
		return take_comm(r, m->comm, err);
	case GPU_SIM__TAPE_RECORD__BODY_OP:
		return take_op(r, m->op, err);
	case GPU_SIM__TAPE_RECORD__BODY_DATA:
		return take_data(r, m->data, err);
	case GPU_SIM__TAPE_RECORD__BODY_END:
		return take_end(r, m->end, err);
	case GPU_SIM__TAPE_RECORD__BODY_FAULT:
		return take_fault(r, m->fault, err);
	case GPU_SIM__TAPE_RECORD__BODY_NOTE:
		r->s->ndecisions++;
		return RC_OK;
	case GPU_SIM__TAPE_RECORD__BODY_ALGO:
		return take_algo(r, m->algo, err);
	case GPU_SIM__TAPE_RECORD__BODY_CLOSE:
		if (r->proc != STORY_NONE)
			r->s->proc[r->proc].closed = true;
		return RC_OK;
	default:
		return bad(r, "a kind that this version does not know", err);
	}
}

static enum rc
read_file(struct reading *r, struct err *err)
{
	struct tape_reader *t;
	GpuSim__TapeRecord *m;
	bool stopped;
	enum rc rc = tape_read_open(r->path, &t, err);

	if (rc != RC_OK)
		return rc;
	stopped = tape_read_is_cut(t);
	r->proc = STORY_NONE;
	r->first_op = r->s->nops;
	while ((rc = tape_read_next(t, &m, &r->record, err)) == RC_OK && m) {
		rc = take(r, m, err);
		tape_record_free(m);
		if (rc != RC_OK)
			break;
	}
	r->s->cut |= tape_read_is_cut(t);
	r->s->stopped |= stopped;
	if (stopped && r->proc != STORY_NONE)
		r->s->proc[r->proc].stopped = r->s->proc[r->proc].closed = true;
	tape_read_close(t);
	return rc;
}

enum rc
story_read(const char *dir, struct story **out, struct err *err)
{
	struct story *s = must_alloc(1, sizeof *s);
	size_t room[5] = {0};
	struct reading r = {.s = s, .room = room};
	enum rc rc = tape_folder_list(dir, &s->path, &s->npaths, err);

	for (size_t i = 0; rc == RC_OK && i < s->npaths; i++) {
		r.path = s->path[i];
		r.file = (uint32_t)i;
		rc = read_file(&r, err);
	}
	if (rc == RC_OK)
		*out = s;
	else
		story_free(s);
	return rc;
}

void
story_free(struct story *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->ncomms; i++)
		free(s->comm[i].proc);
	for (size_t i = 0; i < s->nops; i++) {
		free(s->op[i].text);
		free(s->op[i].parts);
	}
	for (size_t i = 0; i < s->nalgos; i++) {
		free(s->algo[i].name);
		free(s->algo[i].text);
	}
	tape_folder_free(s->path, s->npaths);
	free(s->algo);
	free(s->proc);
	free(s->comm);
	free(s->op);
	free(s->fault);
	free(s->order);
	free(s->unit);
	free(s);
}

void
story_say_op(const struct story *s, const struct story_op *o, char *out, size_t size)
{
	const struct story_comm *c = &s->comm[o->comm];

	snprintf(out, size, "%s #%" PRIu64 " (%s) of communicator %" PRIu64 " epoch %u, rank %u",
		 coll_name((enum gpusim_coll)o->coll), frame_op_shown(o->op), o->algo, c->id,
		 c->epoch, o->rank);
}

/* ---- data */

enum rc
story_input(const struct story *s, const struct story_op *o, bool before, void *to, struct err *err)
{
	uint64_t want = before ? o->out_bytes : o->in_bytes, have = before ? o->nbefore : o->nin;
	const char *path = s->path[s->proc[o->proc].file];
	struct tape_reader *t;
	GpuSim__TapeRecord *m = NULL;
	uint64_t at = 0;
	enum rc rc;

	if (have < want)
		return err_set(err, RC_NOTFOUND, "%s has no such data", path);
	if (want == 0)
		return RC_OK;
	rc = tape_read_open(path, &t, err);
	if (rc != RC_OK)
		return rc;
	rc = tape_read_at(t, o->data_at, &m, err);
	while (rc == RC_OK && m && at < want) {
		if (m->body_case == GPU_SIM__TAPE_RECORD__BODY_DATA &&
		    m->data->number == o->number && !m->data->before == !before &&
		    m->data->at == at && m->data->data.len <= want - at) {
			memcpy((char *)to + at, m->data->data.data, m->data->data.len);
			at += m->data->data.len;
		}
		tape_record_free(m);
		m = NULL;
		if (at < want)
			rc = tape_read_next(t, &m, NULL, err);
	}
	tape_record_free(m);
	tape_read_close(t);
	if (rc == RC_OK && (at < want || crc32c(to, want) != (before ? o->before_crc : o->in_crc)))
		rc = err_set(err, RC_BADDATA,
			     "%s: data of operation %" PRIu64 " have a wrong checksum", path,
			     o->number);
	return rc;
}
