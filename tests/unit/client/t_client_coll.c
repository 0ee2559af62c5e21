/*
 * NCCL's calls with NCCL's counts: two ranks, a thread and a connection each, on two devices; and the same
 * of all ranks by one handle.
 */
#include <pthread.h>
#include <string.h>

#include "gpusim.h"
#include "programs.h"
#include "tap.h"

enum { N = 2, K = 3, MANY = N * K, ROUNDS = 20 }; /* K: NCCL's count */

static const struct gpusim_stream stream = {0};

/* Rank r's i-th input; the elements that a rank has at the end, by call. */
static int32_t
in(uint32_t r, int i)
{
	return (int32_t)(100 * r) + i;
}

enum call {
	ALLREDUCE,
	BROADCAST,
	REDUCE,
	ALLGATHER,
	REDUCE_SCATTER,
	ALLTOALL,
	GATHER,
	SCATTER,
	SENDRECV,
	NCALLS
};

static const char *const name[NCALLS] = {"allreduce", "broadcast",	"reduce",
					 "allgather", "reduce_scatter", "alltoall",
					 "gather",    "scatter",	"send, recv"};

/* What rank r must have; how many elements. */
static int
expected(enum call call, uint32_t r, int32_t *v)
{
	int n = 0;

	for (uint32_t q = 0; q < N; q++)
		for (int i = 0; i < K; i++) {
			int at = (int)q * K + i;

			switch (call) {
			case ALLGATHER:
				v[at] = in(q, i);
				break;
			case GATHER:
				if (r == 1)
					v[at] = in(q, i);
				break;
			case ALLTOALL:
				v[at] = in(q, (int)r * K + i);
				break;
			case REDUCE_SCATTER:
				v[i] = in(0, (int)r * K + i) + in(1, (int)r * K + i);
				break;
			case ALLREDUCE:
				v[i] = in(0, i) + in(1, i);
				break;
			case REDUCE:
				if (r == 1)
					v[i] = in(0, i) + in(1, i);
				break;
			case BROADCAST:
				v[i] = in(1, i);
				break;
			case SCATTER:
				v[i] = in(1, (int)r * K + i);
				break;
			default:
				v[i] = in(1 - r, i);
			}
		}
	if (call == ALLGATHER || call == ALLTOALL)
		n = MANY;
	else if (call == GATHER)
		n = r == 1 ? MANY : 0;
	else
		n = call == REDUCE && r == 0 ? 0 : K;
	return n;
}

struct rank {
	struct gpusim *g;
	struct gpusim_unique_id id;
	struct gpusim_comm *comm;
	uint32_t rank;
	enum gpusim_queues queues;
	struct gpusim_addr send, recv;
	int wrong[NCALLS];
	int early; /* results that were not there when the stream had been waited for */
};

static enum gpusim_rc
call_one(struct rank *t, enum call call)
{
	struct gpusim_comm *c = t->comm;
	enum gpusim_rc rc;

	switch (call) {
	case ALLREDUCE:
		return gpusim_allreduce(c, t->send, t->recv, K, GPUSIM_I32, GPUSIM_SUM, stream);
	case BROADCAST:
		return gpusim_broadcast(c, t->send, t->recv, K, GPUSIM_I32, 1, stream);
	case REDUCE:
		return gpusim_reduce(c, t->send, t->recv, K, GPUSIM_I32, GPUSIM_SUM, 1, stream);
	case ALLGATHER:
		return gpusim_allgather(c, t->send, t->recv, K, GPUSIM_I32, stream);
	case REDUCE_SCATTER:
		return gpusim_reduce_scatter(c, t->send, t->recv, K, GPUSIM_I32, GPUSIM_SUM,
					     stream);
	case ALLTOALL:
		return gpusim_alltoall(c, t->send, t->recv, K, GPUSIM_I32, stream);
	case GATHER:
		return gpusim_gather(c, t->send, t->recv, K, GPUSIM_I32, 1, stream);
	case SCATTER:
		return gpusim_scatter(c, t->send, t->recv, K, GPUSIM_I32, 1, stream);
	default: /* both halves at once, and a barrier behind them */
		rc = gpusim_group_start(c);
		if (rc == GPUSIM_OK)
			rc = gpusim_send(c, t->send, K, GPUSIM_I32, 1 - t->rank, stream);
		if (rc == GPUSIM_OK)
			rc = gpusim_recv(c, t->recv, K, GPUSIM_I32, 1 - t->rank, stream);
		if (rc == GPUSIM_OK)
			rc = gpusim_barrier(c, stream);
		return rc == GPUSIM_OK ? gpusim_group_end(c, GPUSIM_ASYNC) : rc;
	}
}

static bool
is_right(struct rank *t, enum call call)
{
	int32_t want[MANY], got[MANY];
	int n = expected(call, t->rank, want);

	return gpusim_memcpy_d2h(t->g, got, gpusim_comm_device(t->comm, t->rank), t->recv,
				 sizeof got) == GPUSIM_OK &&
	       memcmp(got, want, (size_t)n * sizeof *want) == 0;
}

static void *
run(void *arg)
{
	struct rank *t = arg;
	const struct gpusim_comm_config config = {GPUSIM_COMM_CONFIG_INIT, .life = GPUSIM_LEASE,
						  .queues = t->queues};
	const struct gpusim_device any = {0};
	struct gpusim_device d;
	int32_t v[MANY];

	memset(t->wrong, 1, sizeof t->wrong);
	if (gpusim_comm_init_rank(t->g, N, t->id, t->rank, any, &config, &t->comm) != GPUSIM_OK)
		return NULL;
	d = gpusim_comm_device(t->comm, t->rank);
	for (int i = 0; i < MANY; i++)
		v[i] = in(t->rank, i);
	if (gpusim_malloc(t->g, d, sizeof v, GPUSIM_LEASE, &t->send) != GPUSIM_OK ||
	    gpusim_malloc(t->g, d, sizeof v, GPUSIM_LEASE, &t->recv) != GPUSIM_OK ||
	    gpusim_memcpy_h2d(t->g, d, t->send, v, sizeof v) != GPUSIM_OK)
		return NULL;
	for (int k = 0; k < NCALLS; k++)
		t->wrong[k] = call_one(t, (enum call)k) != GPUSIM_OK ||
			      gpusim_comm_sync(t->comm) != GPUSIM_OK || !is_right(t, (enum call)k);
	for (int k = 0; k < ROUNDS * NCALLS; k++)
		t->early += call_one(t, (enum call)(k % NCALLS)) != GPUSIM_OK ||
			    gpusim_stream_sync(t->g, d, stream) != GPUSIM_OK ||
			    !is_right(t, (enum call)(k % NCALLS));
	return NULL;
}

/* A handle of all ranks: NCCL's counts as well. */
static void
of_all(struct rank *t)
{
	struct gpusim_addr send[N] = {t[0].send, t[1].send}, recv[N] = {t[0].recv, t[1].recv};
	struct gpusim_comm *c = NULL;
	enum gpusim_rc now;

	ok(gpusim_comm_open(t[0].g, gpusim_comm_id(t[0].comm), &c) == GPUSIM_OK &&
	       gpusim_comm_user_rank(c) == -1 && gpusim_comm_user_rank(t[1].comm) == 1 &&
	       gpusim_comm_count(c) == N,
	   "a handle of all ranks");
	ok(gpusim_allreduce(c, send[0], recv[0], K, GPUSIM_I32, GPUSIM_SUM, stream) ==
		   GPUSIM_INVAL &&
	       strstr(gpusim_error(), "for all ranks"),
	   "takes no call of one: %s", gpusim_error());
	ok(gpusim_alltoall_all(c, send, recv, K, GPUSIM_I32, stream) == GPUSIM_OK &&
	       gpusim_comm_sync(c) == GPUSIM_OK && is_right(&t[0], ALLTOALL) &&
	       is_right(&t[1], ALLTOALL),
	   "alltoall_all");
	ok(gpusim_reduce_scatter_all(c, send, recv, K, GPUSIM_I32, GPUSIM_SUM, stream) ==
		   GPUSIM_OK &&
	       gpusim_comm_sync(c) == GPUSIM_OK && is_right(&t[0], REDUCE_SCATTER) &&
	       is_right(&t[1], REDUCE_SCATTER),
	   "reduce_scatter_all");
	ok(gpusim_comm_get_async_error(c, &now) == GPUSIM_OK && now == GPUSIM_OK, "no failure");
	gpusim_comm_free(c);
}

/* A handle of all ranks, where the ranks enqueue for themselves. */
static void
refuses_all(struct rank *t)
{
	struct gpusim_addr send[N] = {t[0].send, t[1].send}, recv[N] = {t[0].recv, t[1].recv};
	struct gpusim_comm *c = NULL;

	ok(gpusim_comm_open(t[0].g, gpusim_comm_id(t[0].comm), &c) == GPUSIM_OK &&
	       gpusim_alltoall_all(c, send, recv, K, GPUSIM_I32, stream) == GPUSIM_INVAL,
	   "a handle of all ranks is refused: %s", gpusim_error());
	gpusim_comm_free(c);
}

static void
pass(enum gpusim_queues queues)
{
	struct launch_config two = two_devices();
	struct gpusim *g;
	struct launch *l = start(&two, &g);
	struct rank t[N] = {{.rank = 0, .queues = queues}, {.rank = 1, .queues = queues}};
	const char *by = queues == GPUSIM_QUEUES_ON ? "by queues" : "by the coordinator";
	pthread_t thread[N];

	gpusim_get_unique_id(&t[0].id);
	t[1].id = t[0].id;
	for (int r = 0; r < N; r++)
		if (gpusim_open(launch_coordinator(l), &t[r].g) != GPUSIM_OK ||
		    pthread_create(&thread[r], NULL, run, &t[r]) != 0)
			tap_bail(gpusim_error());
	for (int r = 0; r < N; r++)
		pthread_join(thread[r], NULL);
	for (int k = 0; k < NCALLS; k++)
		ok(!t[0].wrong[k] && !t[1].wrong[k], "%s of each rank, %s", name[k], by);
	ok(t[0].early + t[1].early == 0, "waiting for the stream waits for the operation, %s", by);
	if (queues == GPUSIM_QUEUES_ON)
		refuses_all(t);
	else
		of_all(t);
	for (int r = 0; r < N; r++)
		ok(gpusim_comm_destroy(t[r].comm) == GPUSIM_OK || queues == GPUSIM_QUEUES_OFF,
		   "destroyed");
	for (int r = 0; r < N; r++)
		gpusim_close(t[r].g);
	gpusim_close(g);
	launch_end(l);
}

int
main(void)
{
	pass(GPUSIM_QUEUES_OFF);
	pass(GPUSIM_QUEUES_ON);
	return tap_done();
}
