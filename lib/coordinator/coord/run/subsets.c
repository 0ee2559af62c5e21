/*
 * subsets.c - the collectives of one submit by the ranks that take part in them: all, or some (Coll.members).
 *
 * The k-th collective of a set of members on one rank meets the k-th of the same set on the others. So the ranks
 * of a set need its collectives in one order, and ranks outside of it none.
 */
#include "coord/run/run_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mix.h"

static uint64_t
hash_of(const GpuSim__Coll *k)
{
	uint64_t h = mix64(k->n_members);

	for (size_t i = 0; i < k->n_members; i++)
		h = mix64(h ^ k->members[i]);
	return h;
}

uint32_t
member_place(const GpuSim__Coll *k, uint32_t rank)
{
	uint32_t r = 0;

	while (k->n_members && k->members[r] != rank)
		r++;
	return k->n_members ? r : rank;
}

enum rc
members_check(const GpuSim__Coll *k, uint32_t nranks, uint32_t rank, struct err *err)
{
	uint8_t seen[WIRE_MAX_RANKS / 8];

	if (strlen(k->group) >= GPUSIM_GROUP_NAME)
		return err_set(err, RC_INVAL, "group '%s': longer than %d letters", k->group,
			       GPUSIM_GROUP_NAME - 1);
	if (!k->n_members)
		return RC_OK;
	if (is_sendrecv(k))
		return err_set(err, RC_INVAL, "a send or recv has a peer, not members");
	memset(seen, 0, sizeof seen);
	for (size_t i = 0; i < k->n_members; i++) {
		uint32_t r = k->members[i];

		if (r >= nranks)
			return err_set(err, RC_INVAL, "member %u: the communicator has %u ranks", r,
				       nranks);
		if (seen[r / 8] & 1u << r % 8)
			return err_set(err, RC_INVAL, "rank %u is twice among the members", r);
		seen[r / 8] |= (uint8_t)(1u << r % 8);
	}
	return seen[rank / 8] & 1u << rank % 8
		   ? RC_OK
		   : err_set(err, RC_INVAL, "rank %u is not among the members", rank);
}

const char *
members_text(const GpuSim__Coll *k, char text[MEMBERS_TEXT])
{
	size_t n = 0;

	text[0] = '\0';
	if (k->n_members && *k->group)
		snprintf(text, MEMBERS_TEXT, " of %s", k->group);
	for (size_t i = 0; i < k->n_members && !*k->group && n + 24 < MEMBERS_TEXT; i++) {
		bool more = n + 48 >= MEMBERS_TEXT && i + 1 < k->n_members;

		n += (size_t)snprintf(text + n, MEMBERS_TEXT - n, "%s%u%s", i ? ", " : " of ranks ",
				      k->members[i], more ? " ..." : "");
		if (more)
			break;
	}
	return text;
}

static bool
is_of(const struct member_set *s, const GpuSim__Coll *k)
{
	return s->nmembers == k->n_members &&
	       (!s->nmembers ||
		memcmp(s->members, k->members, s->nmembers * sizeof *s->members) == 0);
}

/* Half of the slots stay empty. */
static bool
grow(struct member_sets *m)
{
	size_t nslot = m->nslot ? m->nslot * 2 : 16;
	uint32_t *slot = alloc_zeroed(nslot, sizeof *slot);
	struct member_set *set = slot ? alloc_resize(m->set, nslot / 2, sizeof *set) : NULL;

	if (!set) {
		free(slot);
		return false;
	}
	for (size_t i = 0; i < m->n; i++) {
		size_t at = set[i].hash & (nslot - 1);

		while (slot[at])
			at = (at + 1) & (nslot - 1);
		slot[at] = (uint32_t)i + 1;
	}
	free(m->slot);
	m->slot = slot;
	m->nslot = nslot;
	m->set = set;
	return true;
}

static struct member_set *
set_of(struct member_sets *m, const GpuSim__Coll *k)
{
	uint64_t hash = hash_of(k);
	size_t i;

	if (m->n == m->nslot / 2 && !grow(m))
		return NULL;
	for (i = hash & (m->nslot - 1); m->slot[i]; i = (i + 1) & (m->nslot - 1))
		if (is_of(&m->set[m->slot[i] - 1], k))
			return &m->set[m->slot[i] - 1];
	m->slot[i] = (uint32_t)++m->n;
	m->set[m->n - 1] =
	    (struct member_set){.hash = hash, .members = k->members, .nmembers = k->n_members};
	return &m->set[m->n - 1];
}

void
member_sets_fini(struct member_sets *m)
{
	for (size_t i = 0; i < m->n; i++) {
		for (size_t k = 0; k < m->set[i].n; k++)
			free(m->set[i].met[k].of);
		free(m->set[i].met);
	}
	free(m->set);
	free(m->slot);
	*m = (struct member_sets){0};
}

struct met_coll *
member_sets_next(struct member_sets *m, uint32_t rank, const GpuSim__Coll *k)
{
	struct member_set *s = set_of(m, k);
	size_t n;

	if (!s)
		return NULL;
	if (s->walker != rank + 1u) {
		s->walker = rank + 1u;
		s->at = 0;
	}
	n = s->at;
	if (n == s->n && !alloc_room(&s->met, n, &s->cap, sizeof *s->met))
		return NULL;
	if (n == s->n) {
		s->met[s->n++] = (struct met_coll){.coll = k, .rank = rank, .nth = n};
		m->ncoll++;
	}
	s->at++;
	s->met[n].nranks++;
	return &s->met[n];
}
