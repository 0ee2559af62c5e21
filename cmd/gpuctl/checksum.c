/* gpuctl checksum - print each rank's checksum of a vector, and the first element at which ranks differ. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "cli.h"
#include "mem/dtype.h"
#include "mem/vectext.h"
#include "operation.h"

#define LOOK_BYTES \
	65536 /* ranges up to this are copied and compared; longer ones are halved by checksums first */

struct check {
	struct gpusim *g;
	const struct gpusim_comm *comm;
	const struct gpusim_addr *addr; /* by rank; 0: the rank has none */
	uint64_t *crc;			/* by rank */
	uint64_t count;
	size_t size;
	enum gpusim_dtype dtype;
	uint32_t nranks;
	uint32_t usual; /* a rank with the most common checksum */
};

/* The first place where a rank's vector differs from the usual one. */
struct difference {
	uint64_t element;
	struct buf text; /* "1.5, not 1.25" */
};

static enum rc
sum_range(const struct check *k, uint32_t rank, uint64_t from, uint64_t count, uint64_t *crc,
	  struct err *err)
{
	return api(gpusim_checksum(k->g, gpusim_comm_device(k->comm, rank),
				   gpusim_addr_add(k->addr[rank], from * k->size), count * k->size,
				   crc),
		   err);
}

static enum rc
sum_all(struct check *k, struct err *err)
{
	enum rc rc = RC_OK;

	for (uint32_t r = 0; r < k->nranks && rc == RC_OK; r++)
		if (k->addr[r].addr)
			rc = sum_range(k, r, 0, k->count, &k->crc[r], err);
	return rc;
}

/* Find the first rank with the most common checksum. */
static void
find_usual(struct check *k)
{
	uint32_t most = 0;

	for (uint32_t r = 0; r < k->nranks; r++) {
		uint32_t n = 0;

		for (uint32_t q = 0; k->addr[r].addr && q < k->nranks; q++)
			n += k->addr[q].addr && k->crc[q] == k->crc[r];
		if (n > most) {
			most = n;
			k->usual = r;
		}
	}
}

static bool
differs(const struct check *k, uint32_t rank)
{
	return k->addr[rank].addr && k->crc[rank] != k->crc[k->usual];
}

/* Narrow the range of *count elements at *from, which contains the first difference, until it is short. */
static enum rc
narrow(const struct check *k, uint32_t rank, uint64_t *from, uint64_t *count, struct err *err)
{
	enum rc rc = RC_OK;

	while (*count * k->size > LOOK_BYTES && rc == RC_OK) {
		uint64_t half = *count / 2, x, y;

		rc = sum_range(k, rank, *from, half, &x, err);
		if (rc == RC_OK)
			rc = sum_range(k, k->usual, *from, half, &y, err);
		if (rc != RC_OK)
			break;
		*from += x == y ? half : 0;
		*count = x == y ? *count - half : half;
	}
	return rc;
}

static enum rc
copy_out(const struct check *k, uint32_t rank, uint64_t from, uint64_t count, void *to,
	 struct err *err)
{
	return api(gpusim_memcpy_d2h(k->g, to, gpusim_comm_device(k->comm, rank),
				     gpusim_addr_add(k->addr[rank], from * k->size),
				     count * k->size),
		   err);
}

static enum rc
say(const struct check *k, const unsigned char *element, struct buf *out, struct err *err)
{
	enum rc rc = vectext_format(k->dtype, element, 1, out, err);

	if (rc == RC_OK)
		out->data[--out->len] = '\0';
	return rc;
}

static enum rc
find_first(const struct check *k, uint32_t rank, struct difference *out, struct err *err)
{
	static unsigned char its[LOOK_BYTES], usual[LOOK_BYTES];
	uint64_t from = 0, count = k->count, i = 0;
	enum rc rc = narrow(k, rank, &from, &count, err);

	if (rc == RC_OK)
		rc = copy_out(k, rank, from, count, its, err);
	if (rc == RC_OK)
		rc = copy_out(k, k->usual, from, count, usual, err);
	while (rc == RC_OK && i < count &&
	       memcmp(its + i * k->size, usual + i * k->size, k->size) == 0)
		i++;
	if (rc == RC_OK && i == count)
		rc = err_set(err, RC_FAILED,
			     "rank %" PRIu32 " changed its vector while it was compared", rank);
	if (rc == RC_OK)
		rc = say(k, its + i * k->size, &out->text, err);
	if (rc == RC_OK)
		must_addf(&out->text, ", not ");
	if (rc == RC_OK)
		rc = say(k, usual + i * k->size, &out->text, err);
	out->element = from + i;
	return rc;
}

static enum rc
print_rank(const struct check *k, uint32_t r, bool json, struct err *err)
{
	struct difference d = {0};
	bool other = differs(k, r);
	enum rc rc = other ? find_first(k, r, &d, err) : RC_OK;

	if (rc == RC_OK && json)
		printf("{\"rank\":%" PRIu32 ",\"device\":\"%016" PRIx64 "\",\"crc64\":\"%016" PRIx64
		       "\"",
		       r, gpusim_comm_device(k->comm, r).id, k->crc[r]);
	else if (rc == RC_OK)
		printf("rank %-3" PRIu32 "  %016" PRIx64, r, k->crc[r]);
	if (rc == RC_OK && other)
		printf(json ? ",\"first_difference\":%" PRIu64
			    : "  differs first in element %" PRIu64 ": %s",
		       d.element, d.text.data);
	if (rc == RC_OK)
		puts(json ? "}" : "");
	buf_fini(&d.text);
	return rc;
}

static enum rc
print_all(const struct check *k, bool json, struct err *err)
{
	uint32_t others = 0, first = 0;
	enum rc rc = RC_OK;

	for (uint32_t r = k->nranks; r-- > 0;)
		if (differs(k, r)) {
			others++;
			first = r;
		}
	for (uint32_t r = 0; r < k->nranks && rc == RC_OK; r++)
		if (k->addr[r].addr)
			rc = print_rank(k, r, json, err);
	if (rc != RC_OK || !others)
		return rc;
	return err_set(err, RC_FAILED,
		       "comm %" PRIu64 ": rank %" PRIu32 "%s different bits from most ranks",
		       gpusim_comm_id(k->comm).id, first, others > 1 ? " and others have" : " has");
}

enum rc
run_checksum(struct cli *cli, const struct args *a, struct err *err)
{
	struct check k = {.count = a->count, .dtype = a->dtype, .size = dtype_size(a->dtype)};
	struct gpusim_comm *comm = NULL;
	struct gpusim_addr *addr = NULL;
	enum rc rc = cli_comm(cli, a->comm, &comm, err);

	if (rc == RC_OK) {
		k.g = cli->g;
		k.comm = comm;
		k.nranks = gpusim_comm_count(comm);
		k.crc = must_alloc(k.nranks, sizeof *k.crc);
		rc = operation_addrs("--addr", a->addr, k.nranks, &addr, err);
	}
	k.addr = addr;
	if (rc == RC_OK && k.count > UINT64_MAX / k.size)
		rc = err_set(err, RC_INVAL, "--count: %" PRIu64 " elements exceed any memory",
			     k.count);
	if (rc == RC_OK)
		rc = sum_all(&k, err);
	if (rc == RC_OK) {
		find_usual(&k);
		rc = print_all(&k, a->json, err);
	}
	free(k.crc);
	free(addr);
	gpusim_comm_free(comm);
	return rc;
}
