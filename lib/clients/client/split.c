/* Splitting a communicator, as ncclCommSplit does, and the names of policies on failure. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "client/client_impl.h"

const char *
gpusim_on_failure_name(int on_failure)
{
	const char *name = wire_policy_name(on_failure);

	return name ? name : "unknown";
}

enum gpusim_rc
gpusim_on_failure_parse(const char *text, enum gpusim_on_failure *out)
{
	int i;
	enum rc rc = wire_policy_parse(text, &i, client_err());

	if (rc == RC_OK)
		*out = (enum gpusim_on_failure)i;
	return client_rc(rc);
}

/* A rank that takes part, with what it is sorted by. */
struct member {
	int color, key;
	uint32_t rank;
	struct gpusim_device device;
};

static int
order(const void *left, const void *right)
{
	const struct member *a = left, *b = right;

	if (a->color != b->color)
		return a->color < b->color ? -1 : 1;
	if (a->key != b->key)
		return a->key < b->key ? -1 : 1;
	return a->rank < b->rank ? -1 : a->rank > b->rank;
}

/* Those with a color, in the order of their new ranks, color after color. */
static uint32_t
sort_members(const struct gpusim_comm *comm, const int *color, const int *key, struct member *m)
{
	uint32_t n = 0;

	for (uint32_t r = 0; r < comm->nranks; r++)
		if (color[r] >= 0)
			m[n++] =
			    (struct member){color[r], key ? key[r] : 0, r, comm->device[r].device};
	if (n)
		qsort(m, n, sizeof *m, order);
	return n;
}

void
gpusim_split_free(struct gpusim_split *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		gpusim_comm_free(s[i].comm);
	free(s);
}

enum gpusim_rc
gpusim_comm_split_all(const struct gpusim_comm *comm, const int *color, const int *key,
		      const struct gpusim_comm_config *config, struct gpusim_split **out,
		      size_t *nout)
{
	struct gpusim_split *s = alloc_zeroed(comm->nranks, sizeof *s);
	struct member *m = alloc_zeroed(comm->nranks, sizeof *m);
	struct gpusim_device *devices = alloc_zeroed(comm->nranks, sizeof *devices);
	enum gpusim_rc rc = GPUSIM_OK;
	uint32_t n, many;
	size_t made = 0;

	if (!s || !m || !devices)
		rc = client_fail(RC_NOMEM, "out of memory");
	n = rc == GPUSIM_OK ? sort_members(comm, color, key, m) : 0;
	for (uint32_t i = 0; i < n && rc == GPUSIM_OK; i += many) {
		for (many = 1; i + many < n && m[i + many].color == m[i].color;)
			many++;
		for (uint32_t k = 0; k < many; k++)
			devices[k] = m[i + k].device;
		s[made].color = m[i].color;
		rc = gpusim_comm_init_all(comm->g, many, devices, config, &s[made].comm);
		if (rc != GPUSIM_OK)
			client_rc(err_prefix(client_err(), "color %d", m[i].color));
		made += rc == GPUSIM_OK;
	}
	free(devices);
	free(m);
	if (rc != GPUSIM_OK) {
		struct err why = *client_err();

		while (made--)
			gpusim_comm_destroy(s[made].comm);
		free(s);
		*client_err() = why;
		return rc;
	}
	*out = s;
	*nout = made;
	return GPUSIM_OK;
}
