/* Chakra's messages, each of which has its length before it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "chakra.pb-c.h"
#include "replay/et.h"

/* A length, in seven bits a byte. */
static bool
length(const unsigned char **p, const unsigned char *end, uint64_t *out)
{
	*out = 0;
	for (unsigned shift = 0; shift < 64 && *p < end; shift += 7) {
		unsigned char c = *(*p)++;

		*out |= (uint64_t)(c & 0x7f) << shift;
		if (!(c & 0x80))
			return *out <= (uint64_t)(end - *p);
	}
	return false;
}

static void
text(const char *s, char *out, size_t size)
{
	size_t n = 0;

	for (; *s && n < size - 1; s++)
		out[n++] = (char)(*s >= ' ' && *s < 0x7f ? *s : '?');
	out[n] = '\0';
}

/* ---- attributes */

/* A number of any of the types that tools write; a negative one keeps all bits. False: it is none. */
static bool
number(const Chakra__Attribute *a, uint64_t *out)
{
	double d = a->value_case == CHAKRA__ATTRIBUTE__VALUE_FLOAT_VAL ? (double)a->float_val
								       : a->double_val;

	switch (a->value_case) {
	case CHAKRA__ATTRIBUTE__VALUE_DOUBLE_VAL:
	case CHAKRA__ATTRIBUTE__VALUE_FLOAT_VAL:
		*out = d >= 0 && d < 1e18 ? (uint64_t)d : 0;
		return d >= 0 && d < 1e18;
	case CHAKRA__ATTRIBUTE__VALUE_INT32_VAL:
	case CHAKRA__ATTRIBUTE__VALUE_SINT32_VAL:
	case CHAKRA__ATTRIBUTE__VALUE_SFIXED32_VAL:
		*out = (uint64_t)a->int32_val;
		return true;
	case CHAKRA__ATTRIBUTE__VALUE_UINT32_VAL:
	case CHAKRA__ATTRIBUTE__VALUE_FIXED32_VAL:
		*out = a->uint32_val;
		return true;
	case CHAKRA__ATTRIBUTE__VALUE_BOOL_VAL:
		*out = a->bool_val != 0;
		return true;
	case CHAKRA__ATTRIBUTE__VALUE_STRING_VAL:
	case CHAKRA__ATTRIBUTE__VALUE__NOT_SET:
		return false;
	default: /* of 64 bits */
		*out = a->uint64_val;
		return true;
	}
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
take_attribute(struct et_job *job, const Chakra__Attribute *a, struct et_node *n, struct err *err)
{
	char name[ET_NAME];
	uint64_t v;

	if (a->value_case == CHAKRA__ATTRIBUTE__VALUE_STRING_VAL &&
	    strcmp(a->name, "pg_name") == 0 && *a->string_val) {
		text(a->string_val, name, sizeof name);
		return find_group(job, name, &n->group, err);
	}
	if (!number(a, &v))
		return RC_OK;
	if (strcmp(a->name, "comm_type") == 0) {
		if (v >= sizeof colls)
			return err_set(err, RC_BADDATA, "comm_type %" PRIu64 " is not a collective",
				       v);
		n->coll = colls[v];
		n->has_coll = true;
	} else if (strcmp(a->name, "comm_size") == 0) {
		n->nbytes = v;
		n->has_size = true;
	} else if (strcmp(a->name, "comm_src") == 0) {
		n->src = small(v);
	} else if (strcmp(a->name, "comm_dst") == 0) {
		n->dst = small(v);
	} else if (strcmp(a->name, "comm_tag") == 0) {
		n->tag = small(v);
	} else if (strcmp(a->name, "root") == 0 || strcmp(a->name, "root_rank") == 0) {
		n->root = small(v);
	} else if (strcmp(a->name, "num_ops") == 0) {
		n->num_ops = v;
	} else if (strcmp(a->name, "is_cpu_op") == 0) {
		n->on_cpu = v != 0;
	}
	return RC_OK;
}

/* ---- nodes */

static void
take_deps(struct et_trace *t, size_t *room, const uint64_t *id, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		must_room(&t->dep_id, t->ndeps, room, sizeof *t->dep_id);
		t->dep_id[t->ndeps++] = id[i];
	}
}

static enum rc
take_node(struct et_job *job, struct et_trace *t, size_t *room, const Chakra__Node *m,
	  struct et_node *n, struct err *err)
{
	enum rc rc = RC_OK;

	*n = (struct et_node){.id = m->id,
			      .type = (uint8_t)m->type,
			      .duration_us = m->duration_micros,
			      .src = ET_NONE,
			      .dst = ET_NONE,
			      .group = ET_NONE,
			      .dep = (uint32_t)t->ndeps};
	if (m->type >= ET_NTYPES)
		return err_set(err, RC_BADDATA, "node %" PRIu64 " has an unknown type", m->id);
	text(m->name, n->name, sizeof n->name);
	take_deps(t, room, m->ctrl_deps, m->n_ctrl_deps);
	take_deps(t, room, m->data_deps, m->n_data_deps);
	n->ndeps = (uint32_t)t->ndeps - n->dep;
	for (size_t i = 0; i < m->n_attr && rc == RC_OK; i++)
		rc = take_attribute(job, m->attr[i], n, err);
	return rc;
}

enum rc
et_read(struct et_job *job, uint32_t rank, const void *data, size_t nbytes, struct err *err)
{
	struct et_trace *t = &job->rank[rank];
	const unsigned char *begin = data, *p = begin, *end = begin + nbytes;
	size_t deps_room = 0, room = 0;
	enum rc rc = RC_OK;

	while (p < end && rc == RC_OK) {
		size_t at = (size_t)(p - begin);
		Chakra__GlobalMetadata *head;
		Chakra__Node *m;
		uint64_t n;

		if (!length(&p, end, &n))
			return err_set(err, RC_BADDATA, "byte %zu: damaged length", at);
		p += n;
		if (at == 0) {
			head = chakra__global_metadata__unpack(NULL, (size_t)n, p - n);
			if (!head)
				return err_set(err, RC_BADDATA, "not a Chakra execution trace");
			chakra__global_metadata__free_unpacked(head, NULL);
			continue;
		}
		m = chakra__node__unpack(NULL, (size_t)n, p - n);
		if (!m)
			return err_set(err, RC_BADDATA, "byte %zu: damaged node", at);
		if (t->nnodes == ET_MAX_NODES)
			rc = err_set(err, RC_BADDATA, "more than %u nodes", ET_MAX_NODES);
		must_room(&t->node, t->nnodes, &room, sizeof *t->node);
		if (rc == RC_OK)
			rc = take_node(job, t, &deps_room, m, &t->node[t->nnodes], err);
		if (rc == RC_OK)
			t->nnodes++;
		else
			err_prefix(err, "byte %zu", at);
		chakra__node__free_unpacked(m, NULL);
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
