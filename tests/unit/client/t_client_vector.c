/*
 * The v-variants on devices: random counts, zeros too, packed and with gaps, compared element by element with a naive
 * reference; of all ranks by one handle, and of each rank by its own.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "gpusim.h"
#include "programs.h"
#include "tap.h"

enum { N = 3, ROOM = 400000, ROUNDS = SANITIZED ? 20 : 60 };
#define UNTOUCHED (-7)

static const struct gpusim_stream stream = {0};
static uint64_t seed = 3;

static uint64_t
draw(uint64_t n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (seed >> 33) % n;
}

/* What a world of N ranks holds: inputs, the expected outputs, and where they are. */
static struct world {
	struct gpusim *g;
	struct gpusim_comm *comm;
	struct gpusim_addr send[N], recv[N];
	int32_t in[N][ROOM], want[N][ROOM], got[ROOM];
} w;

/* Tables of one call: by rank, or [from][to]. */
struct table {
	uint64_t count[N * N], displ[N * N], recv_displ[N * N];
	bool gaps;
};

static uint64_t
draw_count(void)
{
	uint64_t kind = draw(8);

	return kind == 0 ? 0 : kind == 1 ? draw(30000) : draw(9);
}

static void
draw_displs(struct table *t, uint64_t *displ, const uint64_t *count, size_t step)
{
	uint64_t end = 0;

	for (int r = 0; r < N; r++) {
		end += t->gaps ? draw(4) : 0;
		displ[r] = end;
		end += count[(size_t)r * step];
	}
}

static void
draw_table(struct table *t, bool matrix)
{
	t->gaps = draw(2);
	for (int i = 0; i < N * N; i++)
		t->count[i] = draw_count();
	draw_displs(t, t->displ, t->count, 1);
	for (int r = 0; matrix && r < N; r++) {
		draw_displs(t, t->displ + (size_t)r * N, t->count + (size_t)r * N, 1);
		draw_displs(t, t->recv_displ + (size_t)r * N, t->count + r, N);
	}
}

/* The reference. */
static void
expect(enum gpusim_coll coll, const struct table *t, uint32_t root)
{
	for (uint32_t r = 0; r < N; r++)
		for (int i = 0; i < ROOM; i++)
			w.want[r][i] = UNTOUCHED;
	for (uint32_t r = 0; r < N; r++)
		for (uint32_t q = 0; q < N; q++) {
			uint64_t n = coll == GPUSIM_ALLTOALL ? t->count[q * N + r] : t->count[q];

			for (uint64_t i = 0; i < n; i++)
				switch (coll) {
				case GPUSIM_GATHER:
				case GPUSIM_ALLGATHER:
					if (coll == GPUSIM_ALLGATHER || r == root)
						w.want[r][t->displ[q] + i] = w.in[q][i];
					break;
				case GPUSIM_SCATTER:
					if (q == r)
						w.want[r][i] = w.in[root][t->displ[q] + i];
					break;
				case GPUSIM_REDUCESCATTER:
					if (q == r)
						w.want[r][i] = w.in[0][t->displ[q] + i] +
							       w.in[1][t->displ[q] + i] +
							       w.in[2][t->displ[q] + i];
					break;
				default:
					w.want[r][t->recv_displ[r * N + q] + i] =
					    w.in[q][t->displ[q * N + r] + i];
				}
		}
}

static bool
clear(void)
{
	bool good = true;

	for (int i = 0; i < ROOM; i++)
		w.got[i] = UNTOUCHED;
	for (uint32_t r = 0; r < N; r++)
		good &= gpusim_memcpy_h2d(w.g, gpusim_comm_device(w.comm, r), w.recv[r], w.got,
					  sizeof w.got) == GPUSIM_OK;
	return good;
}

static bool
is_right(void)
{
	for (uint32_t r = 0; r < N; r++)
		if (gpusim_memcpy_d2h(w.g, w.got, gpusim_comm_device(w.comm, r), w.recv[r],
				      sizeof w.got) != GPUSIM_OK ||
		    memcmp(w.got, w.want[r], sizeof w.got) != 0)
			return false;
	return true;
}

static enum gpusim_rc
call_all(enum gpusim_coll coll, const struct table *t, uint32_t root)
{
	struct gpusim_parts parts = {t->count, t->gaps ? t->displ : NULL};

	switch (coll) {
	case GPUSIM_ALLGATHER:
		return gpusim_allgatherv_all(w.comm, w.send, w.recv, parts, GPUSIM_I32, stream);
	case GPUSIM_GATHER:
		return gpusim_gatherv_all(w.comm, w.send, w.recv, parts, GPUSIM_I32, root, stream);
	case GPUSIM_SCATTER:
		return gpusim_scatterv_all(w.comm, w.send, w.recv, parts, GPUSIM_I32, root, stream);
	case GPUSIM_REDUCESCATTER:
		return gpusim_reduce_scatterv_all(w.comm, w.send, w.recv, t->count, GPUSIM_I32,
						  GPUSIM_SUM, stream);
	default:
		return gpusim_alltoallv_all(w.comm, w.send, w.recv, t->count,
					    t->gaps ? t->displ : NULL,
					    t->gaps ? t->recv_displ : NULL, GPUSIM_I32, stream);
	}
}

static const struct {
	enum gpusim_coll coll;
	const char *name;
} calls[] = {{GPUSIM_ALLGATHER, "allgatherv"},
	     {GPUSIM_GATHER, "gatherv"},
	     {GPUSIM_SCATTER, "scatterv"},
	     {GPUSIM_REDUCESCATTER, "reduce_scatterv"},
	     {GPUSIM_ALLTOALL, "alltoallv"}};
#define NCALLS (sizeof calls / sizeof *calls)

static void
of_all(const char *where)
{
	for (size_t k = 0; k < NCALLS; k++) {
		bool good = true;

		for (int i = 0; i < ROUNDS / (int)NCALLS && good; i++) {
			uint32_t root = (uint32_t)draw(N);
			struct table t;

			draw_table(&t, calls[k].coll == GPUSIM_ALLTOALL);
			if (calls[k].coll == GPUSIM_REDUCESCATTER && t.gaps) {
				t.gaps = false;
				draw_displs(&t, t.displ, t.count, 1);
			}
			expect(calls[k].coll, &t, root);
			good = clear() && call_all(calls[k].coll, &t, root) == GPUSIM_OK &&
			       gpusim_comm_sync(w.comm) == GPUSIM_OK && is_right();
		}
		ok(good, "%s, %s: %s", calls[k].name, where, good ? "" : gpusim_error());
	}
}

/* ---- ranks for themselves */

struct rank {
	struct gpusim_unique_id id;
	struct gpusim *g;
	struct gpusim_comm *comm;
	struct gpusim_addr send, recv;
	uint32_t rank;
	enum gpusim_queues queues;
	bool good;
};

static void *
failed(const struct rank *t)
{
	printf("# rank %u: %s\n", t->rank, gpusim_error());
	return NULL;
}

static void *
run(void *arg)
{
	struct rank *t = arg;
	const struct gpusim_comm_config config = {GPUSIM_COMM_CONFIG_INIT, .life = GPUSIM_LEASE,
						  .queues = t->queues};
	const uint64_t matrix[N][N] = {{1, 0, 3}, {2, 2, 0}, {0, 5, 1}}, parts[N] = {4, 0, 2};
	uint64_t column[N];
	struct gpusim_device d;
	int32_t v[16], got[16];
	enum gpusim_rc rc;
	int at = 0;

	if (gpusim_comm_init_rank(t->g, N, t->id, t->rank, (struct gpusim_device){0}, &config,
				  &t->comm) != GPUSIM_OK)
		return failed(t);
	d = gpusim_comm_device(t->comm, t->rank);
	for (int i = 0; i < 16; i++)
		v[i] = (int32_t)t->rank * 100 + i;
	for (int q = 0; q < N; q++)
		column[q] = matrix[q][t->rank];
	if (gpusim_malloc(t->g, d, sizeof v, GPUSIM_LEASE, &t->send) != GPUSIM_OK ||
	    gpusim_malloc(t->g, d, sizeof v, GPUSIM_LEASE, &t->recv) != GPUSIM_OK ||
	    gpusim_memcpy_h2d(t->g, d, t->send, v, sizeof v) != GPUSIM_OK ||
	    gpusim_alltoallv(t->comm, t->send, (struct gpusim_parts){matrix[t->rank], NULL},
			     t->recv, (struct gpusim_parts){column, NULL}, GPUSIM_I32,
			     stream) != GPUSIM_OK ||
	    gpusim_comm_sync(t->comm) != GPUSIM_OK ||
	    gpusim_memcpy_d2h(t->g, got, d, t->recv, sizeof got) != GPUSIM_OK)
		return failed(t);
	t->good = true;
	for (uint32_t q = 0; q < N; q++) {
		int32_t first = (int32_t)q * 100;

		for (uint32_t k = 0; k < t->rank; k++)
			first += (int32_t)matrix[q][k];
		for (uint64_t i = 0; i < column[q]; i++)
			t->good &= got[at++] == first + (int32_t)i;
	}
	t->good &= gpusim_allgatherv(t->comm, t->send, t->recv, (struct gpusim_parts){parts, NULL},
				     GPUSIM_I32, stream) == GPUSIM_OK &&
		   gpusim_comm_sync(t->comm) == GPUSIM_OK &&
		   gpusim_memcpy_d2h(t->g, got, d, t->recv, sizeof got) == GPUSIM_OK &&
		   got[0] == 0 && got[3] == 3 && got[4] == 200 && got[5] == 201;
	/* Ranks that do not agree: the coordinator sees it at once, the devices when they meet. */
	column[0] += t->rank == 2;
	rc = gpusim_alltoallv(t->comm, t->send, (struct gpusim_parts){matrix[t->rank], NULL},
			      t->recv, (struct gpusim_parts){column, NULL}, GPUSIM_I32, stream);
	if (t->queues == GPUSIM_QUEUES_OFF)
		t->good &=
		    rc == GPUSIM_INVAL &&
		    strstr(gpusim_error(), "rank 0 sends 3 elements to rank 2, which receives 4");
	else if (t->rank == 2)
		t->good &= rc == GPUSIM_OK && gpusim_comm_sync(t->comm) != GPUSIM_OK;
	return t->good ? NULL : failed(t);
}

static void
of_each(struct launch *l, enum gpusim_queues queues)
{
	struct rank t[N] = {0};
	pthread_t thread[N];
	bool good = true;

	gpusim_get_unique_id(&t[0].id);
	for (uint32_t r = 0; r < N; r++) {
		t[r].rank = r;
		t[r].queues = queues;
		t[r].id = t[0].id;
		if (gpusim_open(launch_coordinator(l), &t[r].g) != GPUSIM_OK ||
		    pthread_create(&thread[r], NULL, run, &t[r]) != 0)
			tap_bail(gpusim_error());
	}
	for (int r = 0; r < N; r++)
		pthread_join(thread[r], NULL);
	for (int r = 0; r < N; r++) {
		good &= t[r].good;
		if (queues == GPUSIM_QUEUES_OFF && r == 0)
			gpusim_comm_destroy(t[r].comm);
		else
			gpusim_comm_free(t[r].comm);
		gpusim_close(t[r].g);
	}
	ok(good, "alltoallv and allgatherv of each rank, and counts that do not fit, %s",
	   queues == GPUSIM_QUEUES_ON ? "by queues" : "by the coordinator");
}

/* In one buffer, the middle part of no elements. */
static void
in_place(void)
{
	const uint64_t count[N] = {5, 0, 3};
	struct table t = {.count = {5, 0, 3}, .displ = {0, 5, 5}};
	const struct gpusim_parts parts = {count, NULL};
	struct gpusim_addr part[N];
	bool good;

	for (uint32_t r = 0; r < N; r++)
		part[r] = gpusim_addr_add(w.recv[r], t.displ[r] * sizeof(int32_t));
	expect(GPUSIM_ALLGATHER, &t, 0);
	good = clear();
	for (uint32_t r = 0; r < N; r++)
		good = good && gpusim_memcpy_h2d(w.g, gpusim_comm_device(w.comm, r), part[r],
						 w.in[r], count[r] * sizeof(int32_t)) == GPUSIM_OK;
	ok(good &&
	       gpusim_allgatherv_all(w.comm, part, w.recv, parts, GPUSIM_I32, stream) ==
		   GPUSIM_OK &&
	       gpusim_comm_sync(w.comm) == GPUSIM_OK && is_right(),
	   "allgatherv in place, with an empty part: %s", gpusim_error());
}

/* ---- */

static void
refused(void)
{
	const uint64_t counts[N] = {1, 2, 3}, displs[N] = {0, 2, 9};
	struct gpusim_collective c = {GPUSIM_COLLECTIVE_INIT, .coll = GPUSIM_ALLREDUCE,
				      .dtype = GPUSIM_I32,    .send = w.send,
				      .recv = w.recv,	      .counts = counts};

	ok(gpusim_collective(w.comm, &c, GPUSIM_SYNC) == GPUSIM_INVAL &&
	       strstr(gpusim_error(), "no parts"),
	   "%s", gpusim_error());
	c.coll = GPUSIM_ALLGATHER;
	c.displs = displs;
	c.algo = "bruck";
	ok(gpusim_collective(w.comm, &c, GPUSIM_SYNC) == GPUSIM_INVAL &&
	       strstr(gpusim_error(), "does not accept displacements; ring does"),
	   "%s", gpusim_error());
	ok(gpusim_allgatherv_all(w.comm, w.send, w.recv, (struct gpusim_parts){0}, GPUSIM_I32,
				 stream) == GPUSIM_INVAL,
	   "%s", gpusim_error());
}

static void
open_world(struct launch *l)
{
	const struct gpusim_comm_config config = {GPUSIM_COMM_CONFIG_INIT, .life = GPUSIM_LEASE};

	(void)l;
	if (gpusim_comm_init_all(w.g, N, NULL, &config, &w.comm) != GPUSIM_OK)
		tap_bail(gpusim_error());
	for (uint32_t r = 0; r < N; r++) {
		struct gpusim_device d = gpusim_comm_device(w.comm, r);

		for (int i = 0; i < ROOM; i++)
			w.in[r][i] = (int32_t)draw(1 << 20);
		if (gpusim_malloc(w.g, d, sizeof w.in[r], GPUSIM_LEASE, &w.send[r]) != GPUSIM_OK ||
		    gpusim_malloc(w.g, d, sizeof w.in[r], GPUSIM_LEASE, &w.recv[r]) != GPUSIM_OK ||
		    gpusim_memcpy_h2d(w.g, d, w.send[r], w.in[r], sizeof w.in[r]) != GPUSIM_OK)
			tap_bail(gpusim_error());
	}
}

int
main(void)
{
	struct launch_config three = two_devices();
	struct launch *l;

	three.ndevices = N;
	l = start(&three, &w.g);
	open_world(l);
	of_all("by memory");
	in_place();
	refused();
	gpusim_comm_destroy(w.comm);
	of_each(l, GPUSIM_QUEUES_OFF);
	of_each(l, GPUSIM_QUEUES_ON);
	gpusim_close(w.g);
	launch_end(l);
	setenv("GPUSIM_P2P_DISABLE", "1", 1);
	l = start(&three, &w.g);
	open_world(l);
	of_all("by sockets");
	gpusim_comm_destroy(w.comm);
	gpusim_close(w.g);
	launch_end(l);
	return tap_done();
}
