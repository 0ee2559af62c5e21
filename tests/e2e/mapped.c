/*
 * mapped - memory at host addresses, marks on streams, and the general collective of one rank: two ranks of one
 * process. Run it under gpuctl run -n 2. Exits 0 if all is right, else it names the line.
 */
#include <gpusim.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(x)                                                                   \
	do {                                                                       \
		if (!(x)) {                                                        \
			fprintf(stderr, "mapped: line %d: %s: %s\n", __LINE__, #x, \
				gpusim_error());                                   \
			exit(1);                                                   \
		}                                                                  \
	} while (0)

enum { N = 3 };

static struct gpusim *g;
static struct gpusim_unique_id id;
static const struct gpusim_stream stream = {5};

struct rank {
	uint32_t rank;
	enum gpusim_queues queues;
	struct gpusim_comm *comm;
	struct gpusim_device device;
	struct gpusim_addr addr;
	double *host;
};

static void *
begin(void *arg)
{
	struct rank *r = arg;
	struct gpusim_comm_config config = {GPUSIM_COMM_CONFIG_INIT, .life = GPUSIM_LEASE,
					    .queues = r->queues};
	struct gpusim_device any = {0};
	void *at, *next;

	CHECK(gpusim_comm_init_rank(g, 2, id, r->rank, any, &config, &r->comm) == GPUSIM_OK);
	r->device = gpusim_comm_device(r->comm, r->rank);
	CHECK(gpusim_malloc(g, r->device, N * sizeof *r->host, GPUSIM_LEASE, &r->addr) ==
	      GPUSIM_OK);
	CHECK(gpusim_map(g, r->device, r->addr, N * sizeof *r->host, &at) == GPUSIM_OK);
	CHECK(gpusim_map(g, r->device, gpusim_addr_add(r->addr, 8), 8, &next) == GPUSIM_OK);
	CHECK((char *)next - (char *)at == 8);
	r->host = at;
	return NULL;
}

/* Each rank's own factor, its own buffers. */
static void *
scaled_sum(void *arg)
{
	struct rank *r = arg;
	double factor = r->rank ? 10 : 2;
	struct gpusim_collective c = {
	    GPUSIM_COLLECTIVE_INIT, .redop = GPUSIM_PREMULSUM, .nelem = N,	 .send = &r->addr,
	    .recv = &r->addr,	    .stream = stream,	       .scalar = &factor};

	for (int i = 0; i < N; i++)
		r->host[i] = i + (int)r->rank;
	CHECK(gpusim_collective(r->comm, &c, GPUSIM_SYNC) == GPUSIM_OK);
	for (int i = 0; i < N; i++)
		CHECK(r->host[i] == 2 * i + 10 * (i + 1));
	return NULL;
}

static void
both(void *(*f)(void *), struct rank r[2])
{
	pthread_t t;

	CHECK(pthread_create(&t, NULL, f, &r[1]) == 0);
	f(&r[0]);
	CHECK(pthread_join(t, NULL) == 0);
}

/* What a map is of, and what is refused. */
static void
look_at_maps(struct rank *r)
{
	struct gpusim_addr far = {UINT64_MAX - 64}, low = {1};
	double v[N];
	void *at;

	r->host[0] = 7;
	CHECK(gpusim_memcpy_d2h(g, v, r->device, r->addr, sizeof v) == GPUSIM_OK && v[0] == 7);
	v[1] = 8;
	CHECK(gpusim_memcpy_h2d(g, r->device, r->addr, v, sizeof v) == GPUSIM_OK &&
	      r->host[1] == 8);
	CHECK(gpusim_map(g, r->device, far, 8, &at) == GPUSIM_INVAL);
	CHECK(gpusim_map(g, r->device, low, 8, &at) == GPUSIM_INVAL);
	CHECK(gpusim_map(g, r->device, r->addr, UINT64_MAX, &at) == GPUSIM_INVAL);
	CHECK(gpusim_map(g, (struct gpusim_device){1}, r->addr, 8, &at) == GPUSIM_NOTFOUND);
	CHECK(gpusim_free(g, r->device, r->addr) == GPUSIM_OK);
	r->host[0] = 9; /* still mapped */
}

/* A mark is passed when its operation has ended, whatever follows. */
static void
look_at_marks(struct rank r[2])
{
	uint64_t first, second;

	CHECK(gpusim_allreduce(r[0].comm, r[0].addr, r[0].addr, N, GPUSIM_F64, GPUSIM_SUM,
			       stream) == GPUSIM_OK);
	first = gpusim_stream_mark(g, r[0].device, stream);
	CHECK(first && gpusim_stream_wait(g, r[0].device, stream, first, 0) == GPUSIM_TIMEOUT);
	CHECK(gpusim_stream_wait(g, r[0].device, stream, 0, 20) == GPUSIM_TIMEOUT);
	CHECK(gpusim_allreduce(r[1].comm, r[1].addr, r[1].addr, N, GPUSIM_F64, GPUSIM_SUM,
			       stream) == GPUSIM_OK);
	CHECK(gpusim_allreduce(r[0].comm, r[0].addr, r[0].addr, N, GPUSIM_F64, GPUSIM_SUM,
			       stream) == GPUSIM_OK);
	second = gpusim_stream_mark(g, r[0].device, stream);
	CHECK(second > first &&
	      gpusim_stream_wait(g, r[0].device, stream, first, 10000) == GPUSIM_OK);
	CHECK(gpusim_stream_wait(g, r[0].device, stream, second, 0) == GPUSIM_TIMEOUT);
	CHECK(gpusim_allreduce(r[1].comm, r[1].addr, r[1].addr, N, GPUSIM_F64, GPUSIM_SUM,
			       stream) == GPUSIM_OK);
	CHECK(gpusim_stream_wait(g, r[0].device, stream, second, 10000) == GPUSIM_OK);
	CHECK(gpusim_stream_wait(g, r[0].device, stream, first, 0) == GPUSIM_OK);
}

int
main(void)
{
	enum gpusim_queues ways[] = {GPUSIM_QUEUES_ON, GPUSIM_QUEUES_OFF};

	CHECK(gpusim_open(NULL, &g) == GPUSIM_OK);
	for (int i = 0; i < 2; i++) {
		struct rank r[2] = {{.rank = 0, .queues = ways[i]}, {.rank = 1, .queues = ways[i]}};
		struct gpusim_collective ring = {GPUSIM_COLLECTIVE_INIT, .algo = "ring", .nelem = N,
						 .send = &r[0].addr, .recv = &r[0].addr};

		CHECK(gpusim_get_unique_id(&id) == GPUSIM_OK);
		both(begin, r);
		both(scaled_sum, r);
		if (i == 0) {
			CHECK(gpusim_collective(r[0].comm, &ring, GPUSIM_ASYNC) == GPUSIM_INVAL);
			CHECK(strstr(gpusim_error(), "devices choose the algorithm"));
			look_at_marks(r);
		} else {
			CHECK(gpusim_stream_mark(g, r[0].device, (struct gpusim_stream){6}) == 0);
		}
		look_at_maps(&r[0]);
		for (int k = 0; k < 2; k++)
			CHECK(gpusim_comm_destroy(r[k].comm) == GPUSIM_OK || i == 1);
	}
	gpusim_close(g);
	return 0;
}
