/* Chakra's messages: the subset of Protocol Buffers that they need, bounded by the bytes of the file. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/le.h"
#include "base/must.h"
#include "replay/et.h"

/* The rest of a message. */
struct span {
	const unsigned char *p, *end;
};

/* A field of a message. */
struct field {
	uint64_t number, value; /* value: of varint, fixed64, fixed32 */
	unsigned wire;
	struct span bytes; /* of a length-delimited one */
};

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

static bool
varint(struct span *s, uint64_t *out)
{
	uint64_t v = 0;

	for (unsigned shift = 0; shift < 64 && s->p < s->end; shift += 7) {
		unsigned char c = *s->p++;

		v |= (uint64_t)(c & 0x7f) << shift;
		if (!(c & 0x80)) {
			*out = v;
			return true;
		}
	}
	return false;
}

static bool
take(struct span *s, uint64_t n, struct span *out)
{
	if (n > (uint64_t)(s->end - s->p))
		return false;
	*out = (struct span){s->p, s->p + n};
	s->p += n;
	return true;
}

/* Read the next field; false: damaged. */
static bool
next(struct span *s, struct field *f)
{
	uint64_t key, n;

	if (!varint(s, &key))
		return false;
	f->number = key >> 3;
	f->wire = key & 7;
	f->value = 0;
	switch (f->wire) {
	case VARINT:
		return varint(s, &f->value);
	case FIXED64:
		if (!take(s, 8, &f->bytes))
			return false;
		f->value = get64(f->bytes.p);
		return true;
	case FIXED32:
		if (!take(s, 4, &f->bytes))
			return false;
		f->value = get32(f->bytes.p);
		return true;
	case BYTES:
		return varint(s, &n) && take(s, n, &f->bytes);
	default:
		return false;
	}
}

static void
text(struct span s, char *out, size_t size)
{
	size_t n = (size_t)(s.end - s.p) < size ? (size_t)(s.end - s.p) : size - 1;

	for (size_t i = 0; i < n; i++)
		out[i] = (char)(s.p[i] >= ' ' && s.p[i] < 0x7f ? s.p[i] : '?');
	out[n] = '\0';
}

/* ---- attributes */

struct attribute {
	char name[32];
	bool is_number, is_text;
	uint64_t value;
	struct span text;
};

/* A number of any of the types that tools write; a negative one keeps all bits. */
static void
take_value(const struct field *f, struct attribute *a)
{
	double d;
	float x;

	switch (f->number) {
	case 3: /* double */
		memcpy(&d, &f->value, sizeof d);
		a->is_number = f->wire == FIXED64 && d >= 0 && d < 1e18;
		a->value = a->is_number ? (uint64_t)d : 0;
		break;
	case 5: { /* float */
		uint32_t bits = (uint32_t)f->value;

		memcpy(&x, &bits, sizeof x);
		a->is_number = f->wire == FIXED32 && x >= 0 && x < 1e18f;
		a->value = a->is_number ? (uint64_t)x : 0;
		break;
	}
	case 7: /* int32, int64, uint32, uint64 */
	case 9:
	case 11:
	case 13:
	case 19: /* fixed */
	case 21:
	case 23:
	case 25:
	case 27: /* bool */
		a->is_number = f->wire != BYTES;
		a->value = f->value;
		break;
	case 15: /* sint32, sint64 */
	case 17:
		a->is_number = f->wire == VARINT;
		a->value = f->value >> 1 ^ -(f->value & 1);
		break;
	case 29:
		a->is_text = f->wire == BYTES;
		a->text = f->bytes;
		break;
	default:
		break;
	}
}

static bool
read_attribute(struct span s, struct attribute *a)
{
	struct field f;

	*a = (struct attribute){.is_number = false};
	while (s.p < s.end) {
		if (!next(&s, &f))
			return false;
		if (f.number == 1 && f.wire == BYTES)
			text(f.bytes, a->name, sizeof a->name);
		else
			take_value(&f, a);
	}
	return true;
}

/* Indexed by Chakra's numbers. */
static const uint8_t colls[] = {
    GPUSIM_ALLREDUCE, GPUSIM_REDUCE,   GPUSIM_ALLGATHER,     GPUSIM_GATHER,	   GPUSIM_SCATTER,
    GPUSIM_BROADCAST, GPUSIM_ALLTOALL, GPUSIM_REDUCESCATTER, GPUSIM_REDUCESCATTER, GPUSIM_BARRIER};

/* Find a group by its name; add it if it is new. */
static enum rc
find_group(struct et_job *job, const char *name, uint32_t *out, struct err *err)
{
	struct et_group *v;

	for (size_t i = 0; i < job->ngroups; i++)
		if (strcmp(job->group[i].name, name) == 0) {
			*out = (uint32_t)i;
			return RC_OK;
		}
	if (job->ngroups == 4096)
		return err_set(err, RC_BADDATA, "more than 4096 process groups");
	job->group = must_resize(job->group, job->ngroups + 1, sizeof *v);
	v = &job->group[job->ngroups];
	*v = (struct et_group){.nranks = 0};
	snprintf(v->name, sizeof v->name, "%s", name);
	*out = (uint32_t)job->ngroups++;
	return RC_OK;
}

static uint32_t
small(uint64_t v)
{
	return v < UINT32_MAX ? (uint32_t)v : UINT32_MAX;
}

static enum rc
take_attribute(struct et_job *job, const struct attribute *a, struct et_node *n, struct err *err)
{
	char name[ET_NAME];

	if (a->is_text && strcmp(a->name, "pg_name") == 0 && a->text.p < a->text.end) {
		text(a->text, name, sizeof name);
		return find_group(job, name, &n->group, err);
	}
	if (!a->is_number)
		return RC_OK;
	if (strcmp(a->name, "comm_type") == 0) {
		if (a->value >= sizeof colls)
			return err_set(err, RC_BADDATA, "comm_type %" PRIu64 " is not a collective",
				       a->value);
		n->coll = colls[a->value];
		n->has_coll = true;
	} else if (strcmp(a->name, "comm_size") == 0) {
		n->nbytes = a->value;
		n->has_size = true;
	} else if (strcmp(a->name, "comm_src") == 0) {
		n->src = small(a->value);
	} else if (strcmp(a->name, "comm_dst") == 0) {
		n->dst = small(a->value);
	} else if (strcmp(a->name, "comm_tag") == 0) {
		n->tag = small(a->value);
	} else if (strcmp(a->name, "root") == 0 || strcmp(a->name, "root_rank") == 0) {
		n->root = small(a->value);
	} else if (strcmp(a->name, "num_ops") == 0) {
		n->num_ops = a->value;
	} else if (strcmp(a->name, "is_cpu_op") == 0) {
		n->on_cpu = a->value != 0;
	}
	return RC_OK;
}

/* ---- nodes */

static void
add_dep(struct et_trace *t, size_t *room, uint64_t id)
{
	must_room(&t->dep_id, t->ndeps, room, sizeof *t->dep_id);
	t->dep_id[t->ndeps++] = id;
}

/* Read one dependency, or packed ones. */
static enum rc
take_deps(struct et_trace *t, size_t *room, const struct field *f, struct err *err)
{
	struct span s = f->bytes;
	uint64_t id;

	if (f->wire == VARINT) {
		add_dep(t, room, f->value);
		return RC_OK;
	}
	if (f->wire != BYTES)
		return err_set(err, RC_BADDATA, "damaged dependencies");
	while (s.p < s.end) {
		if (!varint(&s, &id))
			return err_set(err, RC_BADDATA, "damaged dependencies");
		add_dep(t, room, id);
	}
	return RC_OK;
}

static enum rc
read_node(struct et_job *job, struct et_trace *t, size_t *room, struct span s, struct et_node *n,
	  struct err *err)
{
	struct attribute a;
	struct field f;
	enum rc rc = RC_OK;

	*n = (struct et_node){
	    .src = ET_NONE, .dst = ET_NONE, .group = ET_NONE, .dep = (uint32_t)t->ndeps};
	while (s.p < s.end && rc == RC_OK) {
		if (!next(&s, &f))
			return err_set(err, RC_BADDATA, "damaged node");
		if (f.number == 1 && f.wire == VARINT)
			n->id = f.value;
		else if (f.number == 2 && f.wire == BYTES)
			text(f.bytes, n->name, sizeof n->name);
		else if (f.number == 3 && f.wire == VARINT)
			n->type = f.value < ET_NTYPES ? (uint8_t)f.value : ET_NTYPES;
		else if (f.number == 4 || f.number == 5)
			rc = take_deps(t, room, &f, err);
		else if (f.number == 7 && f.wire == VARINT)
			n->duration_us = f.value;
		else if (f.number == 10 && f.wire == BYTES)
			rc = read_attribute(f.bytes, &a)
				 ? take_attribute(job, &a, n, err)
				 : err_set(err, RC_BADDATA, "damaged attribute");
	}
	n->ndeps = (uint32_t)t->ndeps - n->dep;
	if (rc == RC_OK && n->type == ET_NTYPES)
		return err_set(err, RC_BADDATA, "node %" PRIu64 " has an unknown type", n->id);
	return rc;
}

enum rc
et_read(struct et_job *job, uint32_t rank, const void *data, size_t nbytes, struct err *err)
{
	struct et_trace *t = &job->rank[rank];
	const unsigned char *begin = data;
	struct span all = {begin, begin + nbytes}, m;
	size_t deps_room = 0, room = 0;
	bool first = true;
	enum rc rc = RC_OK;

	while (all.p < all.end && rc == RC_OK) {
		size_t at = (size_t)(all.p - begin);
		uint64_t n;

		if (!varint(&all, &n) || !take(&all, n, &m))
			return err_set(err, RC_BADDATA, "byte %zu: damaged length", at);
		if (first) { /* GlobalMetadata */
			struct field f;

			for (first = false; m.p < m.end;)
				if (!next(&m, &f))
					return err_set(err, RC_BADDATA,
						       "not a Chakra execution trace");
			continue;
		}
		if (t->nnodes == ET_MAX_NODES)
			return err_set(err, RC_BADDATA, "more than %u nodes", ET_MAX_NODES);
		must_room(&t->node, t->nnodes, &room, sizeof *t->node);
		rc = read_node(job, t, &deps_room, m, &t->node[t->nnodes], err);
		if (rc == RC_OK)
			t->nnodes++;
		else
			err_prefix(err, "byte %zu", at);
	}
	if (rc == RC_OK && t->nnodes == 0)
		rc = err_set(err, RC_BADDATA, "no nodes");
	return rc;
}

void
et_job_fini(struct et_job *job)
{
	for (uint32_t r = 0; job->rank && r < job->nranks; r++) {
		free(job->rank[r].node);
		free(job->rank[r].dep);
		free(job->rank[r].dep_id);
	}
	free(job->rank);
	free(job->group);
	*job = (struct et_job){0};
}

void
et_say(uint32_t rank, const struct et_node *n, char *out, size_t size)
{
	snprintf(out, size, "%s (node %" PRIu64 " of rank %u)", *n->name ? n->name : "a node",
		 n->id, rank);
}
