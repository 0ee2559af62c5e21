/*
 * gpusim.h - the public C API of gpusim, "NCCL you can run from a shell".
 *
 * One process (a script, a trainer) drives a machine full of simulated GPUs: it asks the
 * coordinator (gpucoord) for devices and communicators, and moves data to and from the devices
 * (gpudev) directly. Link with `pkg-config --cflags --libs gpusim`.
 *
 * Conventions
 *	- Every call that can fail returns enum gpusim_rc; outputs are untouched on failure and
 *	  gpusim_error() gives the sentence that names the thing and the reason.
 *	- A handle may be used by several threads; gpusim_error() answers for its thread.
 *	- counts are elements, sizes are bytes, times are milliseconds, addresses are device
 *	  addresses (never host pointers).
 *	- Nothing waits for ever: calls end within the handle's timeout (gpusim_set_timeout_ms).
 */
#ifndef GPUSIM_H
#define GPUSIM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GPUSIM_VERSION "0.1.0"

/* What a call came to. The programs exit with gpusim_rc_exit(rc). The wire carries these numbers.
 */
enum gpusim_rc {
	GPUSIM_OK = 0,
	GPUSIM_FAILED = 1,	/* the operation failed */
	GPUSIM_INVAL = 2,	/* an argument is wrong */
	GPUSIM_UNREACHABLE = 3, /* nobody answers at the address */
	GPUSIM_TIMEOUT = 4,	/* the deadline passed */
	GPUSIM_BADDATA = 5,	/* bytes that do not parse or do not check */
	GPUSIM_INTERNAL = 6,	/* a broken promise of gpusim itself */
	GPUSIM_NOMEM = 7,	/* host or device memory is exhausted */
	GPUSIM_NOTFOUND = 8,	/* no such device, communicator, stream, kernel, graph */
	GPUSIM_BUSY = 9,	/* in use, or a limit is reached; try again later */
	GPUSIM_ABORTED = 10,	/* ended early because a peer failed */
	GPUSIM_RECOVERED =
	    11, /* a rank was lost; the communicator has recovered, but what ran was not
				 * run again: begin it again from your own copy */
};

/* Element types. The wire carries these numbers; 0 is the lab's type. */
enum gpusim_dtype {
	GPUSIM_F64 = 0,
	GPUSIM_F32 = 1,
	GPUSIM_F16 = 2,
	GPUSIM_BF16 = 3,
	GPUSIM_I8 = 4,
	GPUSIM_U8 = 5,
	GPUSIM_I32 = 6,
	GPUSIM_U32 = 7,
	GPUSIM_I64 = 8,
	GPUSIM_U64 = 9,
	GPUSIM_NDTYPES,
};

/* Reduction operations. Integer sums and products wrap; avg of integers truncates toward zero. */
enum gpusim_redop {
	GPUSIM_SUM = 0,
	GPUSIM_PROD = 1,
	GPUSIM_MIN = 2,
	GPUSIM_MAX = 3,
	GPUSIM_AVG = 4,
	GPUSIM_NREDOPS,
};

/* Collectives and point-to-point operations. */
enum gpusim_coll {
	GPUSIM_ALLREDUCE = 0,
	GPUSIM_BROADCAST = 1,
	GPUSIM_REDUCE = 2,
	GPUSIM_ALLGATHER = 3,
	GPUSIM_REDUCESCATTER = 4,
	GPUSIM_ALLTOALL = 5,
	GPUSIM_GATHER = 6,
	GPUSIM_SCATTER = 7,
	GPUSIM_BARRIER = 8,
	GPUSIM_SEND = 9,
	GPUSIM_RECV = 10,
	GPUSIM_NCOLLS = 11,
};

/* The exit code a program ends with for a result: the table in gpusim(7). */
int gpusim_rc_exit(enum gpusim_rc rc);

/* The sentence of this thread's last failure. Valid until the thread's next failure. */
const char *gpusim_error(void);

/* ------------------------------------------------------------------ the machine */

/* Ids are types, so that one is not taken for another; they are passed by value. */
struct gpusim_device {
	uint64_t id; /* 0: none, or any */
};
struct gpusim_comm_id {
	uint64_t id; /* by which other processes open the communicator; 0: none, or any */
};
struct gpusim_stream {
	uint64_t id; /* 0 .. 63 of a device; 0 is the one that is always there */
};
struct gpusim_event {
	uint64_t id; /* of a device; any number */
};
struct gpusim_graph {
	uint64_t id; /* of a communicator; 0: none */
};

/* Memory of a device; 0: nowhere. */
struct gpusim_addr {
	uint64_t addr;
};

static inline struct gpusim_addr
gpusim_addr_add(struct gpusim_addr base, uint64_t nbytes)
{
	base.addr += nbytes;
	return base;
}

struct gpusim; /* a connection to a coordinator, and to devices as they are needed */

/* Connect. coordinator NULL: $GPUSIM_COORD, else gpucoord.sock in the private directory (gpusim(7)), which
 * is waited for up to a second, as both may just have been started. GPUSIM_UNREACHABLE. */
enum gpusim_rc gpusim_open(const char *coordinator, struct gpusim **out);

/* The same, with the timeout of gpusim_set_timeout_ms, which counts for connecting as well. */
enum gpusim_rc gpusim_open_within(const char *coordinator, uint32_t timeout_ms,
				  struct gpusim **out);

/* Close; what is leased (GPUSIM_LEASE) goes a moment later. NULL is legal. */
void gpusim_close(struct gpusim *g);

/* How long any one call may take; 60 s at first. */
void gpusim_set_timeout_ms(struct gpusim *g, uint32_t timeout_ms);

/* How long the coordinator may be away, as when it is started again, before a call fails with
 * GPUSIM_UNREACHABLE; 2 s until it is set. The timeout bounds that too. */
void gpusim_set_away_ms(struct gpusim *g, uint32_t away_ms);

#define GPUSIM_PROGRAM 64 /* bytes of a program's name, with its NUL */

/* What messages to others call this program, beside its process id: who has the devices that they want. At
 * first the name it was started by. GPUSIM_INVAL: it is too long, or has control characters. */
enum gpusim_rc gpusim_set_program(struct gpusim *g, const char *name);

#define GPUSIM_TEXT 256 /* bytes of an address or path, with its NUL */

struct gpusim_device_info {
	struct gpusim_device device;
	struct gpusim_addr min_addr, max_addr; /* of its memory: [min, max) */
	uint64_t used_bytes;		       /* in allocations */
	struct gpusim_comm_id comm;	       /* it is in; or 0 */
	uint32_t ordinal, pid;
	int lost;  /* its process has ended, or it was not heard from for a while */
	int spare; /* taken for a communicator only when named, or in a lost rank's place */
	int join;  /* offers itself to communicators that grow */
	char address[GPUSIM_TEXT], data_address[GPUSIM_TEXT], mem_path[GPUSIM_TEXT];
	char host[GPUSIM_TEXT];	       /* boot id */
	char mem_private[GPUSIM_TEXT]; /* why no other device maps its memory; "": those may that
					  are on its host */
	/* Of one that is lost: */
	char lost_why[GPUSIM_TEXT];	  /* "killed by signal 9" */
	char lost_remedy[GPUSIM_TEXT];	  /* "is being started again", or why it cannot be; or "" */
	uint64_t lost_at_ms, lost_ago_ms; /* at_ms: of the epoch, by the coordinator's clock */
};

/* All devices, sorted by ordinal and id. *out is the caller's to free(3). */
enum gpusim_rc gpusim_devices(struct gpusim *g, struct gpusim_device_info **out, size_t *ndevices);

/* How far a rank is in the operation it is in, as its device told with its last heartbeat. */
struct gpusim_progress {
	struct gpusim_device device;
	uint64_t operation;
	uint64_t idle_ms; /* since it last moved */
	uint32_t rank;
	uint32_t step, steps; /* of its plan, from 1 */
	int32_t waits_for;    /* a rank; -1: nobody */
};

struct gpusim_comm_info {
	struct gpusim_comm_id id;
	uint64_t pending, operations;
	uint32_t epoch, nranks;
	uint32_t recoveries;		  /* so often it went on without, or with another, rank */
	int on_failure;			  /* enum gpusim_on_failure */
	int state;			  /* enum gpusim_state */
	struct gpusim_device *devices;	  /* by rank */
	char reason[512];		  /* when it failed */
	struct gpusim_progress *progress; /* of the ranks that are in an operation */
	size_t nprogress;
};

struct gpusim_status {
	uint64_t instance, uptime_ms;
	uint32_t pid;
	char version[GPUSIM_TEXT], address[GPUSIM_TEXT];
	struct gpusim_device_info *devices;
	struct gpusim_comm_info *comms;
	size_t ndevices, ncomms;
	uint32_t waiting; /* calls that stand in line for devices */
};

/* What the coordinator knows. Release with gpusim_status_fini. */
enum gpusim_rc gpusim_status(struct gpusim *g, struct gpusim_status *out);
void gpusim_status_fini(struct gpusim_status *s);

enum gpusim_history_kind {
	GPUSIM_HISTORY_STARTED,	    /* the coordinator, perhaps again */
	GPUSIM_HISTORY_JOINED,	    /* a device that was not known */
	GPUSIM_HISTORY_LOST,	    /* a device */
	GPUSIM_HISTORY_BACK,	    /* a lost device is heard again */
	GPUSIM_HISTORY_RESTARTED,   /* a device is another process now */
	GPUSIM_HISTORY_REPLACED,    /* a device, by a spare: `device` */
	GPUSIM_HISTORY_GIVEN_UP,    /* a lost device cannot be started again */
	GPUSIM_HISTORY_COMM_FAILED, /* a communicator */
	GPUSIM_HISTORY_RECOVERED,   /* a communicator */
};

/* "started", "lost" ...: static storage. */
const char *gpusim_history_name(int kind);

struct gpusim_history_event {
	uint64_t number, at_ms;	     /* from 1 on; of the epoch, by the coordinator's clock */
	struct gpusim_device device; /* or 0 */
	struct gpusim_comm_id comm;  /* or 0 */
	uint32_t ordinal;	     /* of the device */
	int32_t rank;		     /* of the device in comm; or -1 */
	int kind;		     /* enum gpusim_history_kind */
	char text[512];		     /* a sentence */
};

/* What has happened, in its order: events whose number is larger than `after`, at most the last 1024. If
 * there is none yet it is waited for, at most wait_ms. *out is the caller's to free(3). *last is the number
 * of the newest; less than `after`: this is another coordinator, which counts anew. */
enum gpusim_rc gpusim_history(struct gpusim *g, uint64_t after, uint32_t wait_ms,
			      struct gpusim_history_event **out, size_t *n, uint64_t *last);

/* ------------------------------------------------------------------ memory of one device */

enum gpusim_life {
	GPUSIM_PERSIST, /* until it is freed or destroyed */
	GPUSIM_LEASE,	/* at most until this handle is closed or its process dies */
};

enum gpusim_rc gpusim_malloc(struct gpusim *g, struct gpusim_device device, uint64_t nbytes,
			     enum gpusim_life life, struct gpusim_addr *addr);
enum gpusim_rc gpusim_free(struct gpusim *g, struct gpusim_device device, struct gpusim_addr addr);

/* Copy host to device, device to host, device to device (the same or another). Any size; not
 * ordered with what is queued on streams. The memory of a device of this host and user is a file,
 * which is then read and written without the device's process, unless GPUSIM_P2P_DISABLE=1 was in
 * the environment of gpusim_open. */
enum gpusim_rc gpusim_memcpy_h2d(struct gpusim *g, struct gpusim_device device,
				 struct gpusim_addr addr, const void *src, uint64_t nbytes);
enum gpusim_rc gpusim_memcpy_d2h(struct gpusim *g, void *dst, struct gpusim_device device,
				 struct gpusim_addr addr, uint64_t nbytes);
enum gpusim_rc gpusim_memcpy_d2d(struct gpusim *g, struct gpusim_device dst_device,
				 struct gpusim_addr dst_addr, struct gpusim_device src_device,
				 struct gpusim_addr src_addr, uint64_t nbytes);
enum gpusim_rc gpusim_memset(struct gpusim *g, struct gpusim_device device, struct gpusim_addr addr,
			     int value, uint64_t nbytes);

/* ------------------------------------------------------------------ streams of one device */

enum gpusim_wait {
	GPUSIM_ASYNC, /* return when the work is queued; its failure is the stream's or
			 communicator's */
	GPUSIM_SYNC,  /* return when it has ended, with its result */
};

/* An argument of a kernel, by name; gpusim(7) lists kernels and arguments. */
struct gpusim_arg {
	const char *name;
	int is_real; /* f holds, else u */
	uint64_t u;  /* address, count, enum gpusim_dtype, flag */
	double f;
	uint64_t step; /* in a graph: added to u once per iteration */
};

/* Streams are 0..63. */
enum gpusim_rc gpusim_launch(struct gpusim *g, struct gpusim_device device,
			     struct gpusim_stream stream, const char *kernel,
			     const struct gpusim_arg *args, size_t nargs, enum gpusim_wait wait);
enum gpusim_rc gpusim_event_record(struct gpusim *g, struct gpusim_device device,
				   struct gpusim_stream stream, struct gpusim_event event);
enum gpusim_rc gpusim_event_wait(struct gpusim *g, struct gpusim_device device,
				 struct gpusim_stream stream, struct gpusim_event event);

enum gpusim_state { GPUSIM_IN_PROGRESS = 0, GPUSIM_SUCCESS = 1, GPUSIM_STATE_FAILED = 2 };

/* Wait until a stream is idle, and return the failure of what was queued, if any. */
enum gpusim_rc gpusim_stream_sync(struct gpusim *g, struct gpusim_device device,
				  struct gpusim_stream stream);

/* The lab's transfers: queue one end each on two devices of a communicator (0: their only one). The
 * stream id that begin_send returns names the transfer to begin_receive; each end's outcome is its
 * stream's. */
enum gpusim_rc gpusim_begin_send(struct gpusim *g, struct gpusim_device device,
				 struct gpusim_comm_id comm, struct gpusim_addr addr,
				 uint64_t nbytes, uint32_t dst_rank, struct gpusim_stream *stream);
enum gpusim_rc gpusim_begin_receive(struct gpusim *g, struct gpusim_device device,
				    struct gpusim_comm_id comm, struct gpusim_stream stream,
				    struct gpusim_addr addr, uint64_t nbytes, uint32_t src_rank);
enum gpusim_rc gpusim_stream_status(struct gpusim *g, struct gpusim_device device,
				    struct gpusim_stream stream, enum gpusim_state *state);

/* ------------------------------------------------------------------ communicators */

/* A communicator as it was when the handle was made: its members by rank. The handle does not change. */
struct gpusim_comm;

/* What becomes of a communicator that lost a rank; gpusim(7) has the whole story. */
enum gpusim_on_failure {
	GPUSIM_ON_FAILURE_ABORT = 0,   /* it fails, and says why */
	GPUSIM_ON_FAILURE_SHRINK = 1,  /* it goes on with the ranks that are left */
	GPUSIM_ON_FAILURE_RESPAWN = 2, /* the device is started again on its memory file */
	GPUSIM_ON_FAILURE_SPARE = 3, /* a spare device takes the rank, with the lost one's memory */
};

/* "abort", "shrink", "respawn", "spare", and back. GPUSIM_INVAL: it is none of them. */
const char *gpusim_on_failure_name(int on_failure);
enum gpusim_rc gpusim_on_failure_parse(const char *text, enum gpusim_on_failure *out);

struct gpusim_comm_config {
	enum gpusim_life life;
	enum gpusim_on_failure on_failure;
	uint32_t op_timeout_ms; /* longest wait without progress; 0: the coordinator's default */
	uint32_t wait_ms;	/* for devices that are in use; beside the handle's timeout */
};

/* Over n devices that are in no communicator (devices NULL), or over the n named, rank by rank.
 * config NULL: all zero. Release *out with gpusim_comm_free or gpusim_comm_destroy.
 *
 * When fewer than n are free: GPUSIM_BUSY, and who has the others. With wait_ms the call stands in line
 * for them, so long: first come, first served, and GPUSIM_TIMEOUT when the time is over. Where there are
 * less than n it fails at once: GPUSIM_NOTFOUND; or, if some of them are lost, without wait_ms,
 * GPUSIM_FAILED.
 *
 * With on_failure other than abort, a rank lost in mid operation costs time, not the result: what was
 * submitted of collectives alone is run again from its inputs, which the devices keep, and succeeds;
 * gpusim_note() says what happened. Anything else that ran (kernels, graphs) ends with
 * GPUSIM_RECOVERED and the communicator is usable; gpusim_comm_open says who is in it now. */
enum gpusim_rc gpusim_comm_init_all(struct gpusim *g, uint32_t n,
				    const struct gpusim_device *devices,
				    const struct gpusim_comm_config *config,
				    struct gpusim_comm **out);

/* An id for gpusim_comm_init_rank, by chance: 32 hexadecimal digits. One process makes it and tells the
 * others; no coordinator is needed for that. */
#define GPUSIM_UNIQUE_ID 33 /* bytes, with its NUL */
enum gpusim_rc gpusim_unique_id(char id[GPUSIM_UNIQUE_ID]);

/* The same as gpusim_comm_init_all by nranks calls, one a rank, of one or many processes, as
 * ncclCommInitRank: each returns the communicator, all the same, when all have called with the id.
 *
 * device: the rank's, or {0}: the free one whose ordinal is the rank, else the next that is
 * free. config must be the same in all calls; GPUSIM_LEASE: until all handles that called are closed.
 * wait_ms is not looked at: ranks wait for each other, not for devices.
 *
 * When one waits longer than its handle's timeout, or any longer than the coordinator's communicator
 * timeout, all end with GPUSIM_TIMEOUT and who was missing, and may try again. An id makes one
 * communicator. GPUSIM_INVAL: it is used up, the rank has come already, nranks or config differ, a device
 * is named twice. */
enum gpusim_rc gpusim_comm_init_rank(struct gpusim *g, uint32_t nranks, const char *id,
				     uint32_t rank, struct gpusim_device device,
				     const struct gpusim_comm_config *config,
				     struct gpusim_comm **out);

/* A communicator that exists, as it is now: another handle for one that has recovered or changed. */
enum gpusim_rc gpusim_comm_open(struct gpusim *g, struct gpusim_comm_id id,
				struct gpusim_comm **out);

/* Release the handle; the communicator lives on. NULL is legal. */
void gpusim_comm_free(struct gpusim_comm *comm);

/* Destroy the communicator, and release the handle whatever the result. NULL is legal. */
enum gpusim_rc gpusim_comm_destroy(struct gpusim_comm *comm);

/* What a handle says. user_rank: the rank it was made for, or -1 if it is for all ranks. epoch: grows with
 * each change of the ranks. count: 0 for NULL. device {0}, device_info NULL: there is no such rank; the latter lives as long as
 * the handle. */
struct gpusim_comm_id gpusim_comm_id(const struct gpusim_comm *comm);
uint32_t gpusim_comm_count(const struct gpusim_comm *comm);
int gpusim_comm_user_rank(const struct gpusim_comm *comm);
uint32_t gpusim_comm_epoch(const struct gpusim_comm *comm);
struct gpusim_device gpusim_comm_device(const struct gpusim_comm *comm, uint32_t rank);
const struct gpusim_device_info *gpusim_comm_device_info(const struct gpusim_comm *comm,
							 uint32_t rank);

/* End what runs, with a reason (NULL: none given); the communicator has failed. */
enum gpusim_rc gpusim_comm_abort(struct gpusim_comm *comm, const char *reason);

/* Leave ranks out (nranks 0: those whose devices are lost); the others keep their order. Nothing may be
 * in progress. A communicator that failed is usable again. out NULL: no handle of what it is then. */
enum gpusim_rc gpusim_comm_shrink(struct gpusim_comm *comm, const uint32_t *ranks, size_t nranks,
				  struct gpusim_comm **out);

/* Take in n free devices (devices NULL), for which the call stands in line for up to wait_ms as
 * gpusim_comm_init_all does, or the n named, as the last ranks. out NULL: as above. */
enum gpusim_rc gpusim_comm_grow(struct gpusim_comm *comm, uint32_t n,
				const struct gpusim_device *devices, uint32_t wait_ms,
				struct gpusim_comm **out);

/* One color's communicator. */
struct gpusim_split {
	int color;
	struct gpusim_comm *comm;
};

/* Make a communicator of the ranks of each color, ordered by key, then rank: ncclCommSplit, for all
 * ranks at once. color and key: by rank; a color below 0 takes no part, key NULL is all 0. comm stays.
 * All or nothing: if one cannot be made, those made before are destroyed. *out: one a color, in
 * ascending order, released with gpusim_split_free, which does not destroy the communicators. */
enum gpusim_rc gpusim_comm_split_all(const struct gpusim_comm *comm, const int *color,
				     const int *key, const struct gpusim_comm_config *config,
				     struct gpusim_split **out, size_t *nout);
void gpusim_split_free(struct gpusim_split *s, size_t n);

/* What had to be recovered from in this thread's last call that succeeded: a sentence, or "". After
 * gpusim_comm_status: the communicator's latest recovery. */
const char *gpusim_note(void);

/* Its state; with GPUSIM_SYNC once nothing is in progress (or the time is up: GPUSIM_TIMEOUT). When
 * the state is GPUSIM_STATE_FAILED, gpusim_error() says why. */
enum gpusim_rc gpusim_comm_status(const struct gpusim_comm *comm, enum gpusim_wait wait,
				  enum gpusim_state *state);

/* How what was queued on the communicator came out: GPUSIM_OK if it is well or still runs, else the failure,
 * whose sentence gpusim_error() then has. */
enum gpusim_rc gpusim_comm_get_async_error(const struct gpusim_comm *comm, enum gpusim_rc *out);

/* By how much a rank held up the others: how long it was waited for, less what it waited itself, in
 * each run of the communicator that succeeded. So the slow one stands out, and not its victims. */
struct gpusim_lateness {
	struct gpusim_device device;
	uint64_t operations; /* of those runs */
	uint64_t sum_ns;
	uint64_t max_ns; /* of one run */
};

/* By rank. *out is the caller's to free(3). */
enum gpusim_rc gpusim_comm_lateness(const struct gpusim_comm *comm, struct gpusim_lateness **out,
				    uint32_t *nranks);

/* How chunks get from one rank to another. */
enum gpusim_path {
	GPUSIM_PATH_NET = 0, /* sockets */
	GPUSIM_PATH_P2P = 1, /* each maps the other's memory */
};

/* The path from rank r to rank q is path[r * nranks + q], an enum gpusim_path; to itself it is
 * GPUSIM_PATH_P2P. path: nranks * nranks bytes. GPUSIM_INVAL for more than 512 ranks. */
enum gpusim_rc gpusim_comm_paths(const struct gpusim_comm *comm, uint8_t *path);

/* What is submitted between start and end is checked at once and runs together at the end. */
enum gpusim_rc gpusim_group_start(struct gpusim_comm *comm);
enum gpusim_rc gpusim_group_end(struct gpusim_comm *comm, enum gpusim_wait wait);

/* One collective over all ranks, or a send or recv of one. */
struct gpusim_collective {
	enum gpusim_coll coll;
	enum gpusim_dtype dtype;
	enum gpusim_redop redop;
	const char *algo; /* NULL: the default; gpuctl plan lists them */
	/*
	 * Elements of the whole vector: of the buffer for allreduce, broadcast, reduce, send, recv;
	 * of all ranks' parts together for allgather, gather, reducescatter, scatter, alltoall.
	 * Rank r's part is [r*nelem/n, (r+1)*nelem/n), so it may be uneven (but for alltoall).
	 * NCCL's count is nelem / n there.
	 */
	uint64_t nelem;
	uint32_t root;			/* send, recv: the peer */
	uint32_t rank;			/* send, recv: who does it */
	const struct gpusim_addr *send; /* addresses by rank (send: [0]); 0 where a rank has none */
	const struct gpusim_addr
	    *recv; /* addresses by rank (recv: [0]); equal to send means in place */
	struct gpusim_stream stream;
	uint64_t chunk_bytes; /* largest message; 0: default */
};

enum gpusim_rc gpusim_collective(struct gpusim_comm *comm, const struct gpusim_collective *c,
				 enum gpusim_wait wait);

/* As in the lab: in place, by the ring, queued; gpusim_comm_status tells the outcome. */
enum gpusim_rc gpusim_allreduce_ring(struct gpusim_comm *comm, uint64_t count,
				     enum gpusim_dtype dtype, enum gpusim_redop redop,
				     const struct gpusim_addr *addrs);

/* ------------------------------------------------------------------ lists of operations, graphs */

/* What each rank does, in order. Adding can run out of memory only, and then submitting says so. */
struct gpusim_ops;

struct gpusim_ops *gpusim_ops_new(uint32_t nranks);
void gpusim_ops_free(struct gpusim_ops *o);
void gpusim_ops_launch(struct gpusim_ops *o, uint32_t rank, struct gpusim_stream stream,
		       const char *kernel, const struct gpusim_arg *args, size_t nargs);
void gpusim_ops_memset(struct gpusim_ops *o, uint32_t rank, struct gpusim_stream stream,
		       struct gpusim_addr addr, int value, uint64_t nbytes);
void gpusim_ops_copy(struct gpusim_ops *o, uint32_t rank, struct gpusim_stream stream,
		     struct gpusim_addr dst, struct gpusim_addr src, uint64_t nbytes);
void gpusim_ops_record(struct gpusim_ops *o, uint32_t rank, struct gpusim_stream stream,
		       struct gpusim_event event);
void gpusim_ops_wait(struct gpusim_ops *o, uint32_t rank, struct gpusim_stream stream,
		     struct gpusim_event event);
void gpusim_ops_collective(struct gpusim_ops *o, const struct gpusim_collective *c);

/* Whether what is added from here on counts in struct gpusim_times; at first it does. */
enum gpusim_timing { GPUSIM_TIMED, GPUSIM_UNTIMED };
void gpusim_ops_timing(struct gpusim_ops *o, enum gpusim_timing timing);

/* Where a rank's time went. */
struct gpusim_times {
	uint64_t compute_ns; /* kernels, memset, copy */
	uint64_t comm_ns;    /* collectives, waiting for peers included */
};

/* Run once. times: nranks entries, or NULL; filled only with GPUSIM_SYNC. */
enum gpusim_rc gpusim_submit(struct gpusim_comm *comm, const struct gpusim_ops *o,
			     enum gpusim_wait wait, struct gpusim_times *times);

/* Record once, run often: one request for all iterations, first .. first + iterations - 1 as kernel
 * arguments with a step count them. */
enum gpusim_rc gpusim_graph_create(struct gpusim_comm *comm, const struct gpusim_ops *o,
				   struct gpusim_graph *graph);
enum gpusim_rc gpusim_graph_launch(struct gpusim_comm *comm, struct gpusim_graph graph,
				   uint64_t first, uint64_t iterations, enum gpusim_wait wait,
				   struct gpusim_times *times);
enum gpusim_rc gpusim_graph_destroy(struct gpusim_comm *comm, struct gpusim_graph graph);

/* ------------------------------------------------------------------ models for others */

/*
 * Give the coordinator the bytes of a .npz file, for whoever asks it over HTTP for the newest model
 * (gpucoord --http); it keeps one.
 *
 *	training	a random number that tells this training from others, never 0
 *	version		larger than those of the same training before it
 *
 * GPUSIM_INVAL: it was started without --http, or the version is not larger. GPUSIM_BUSY: too many or too
 * large ones at a time.
 */
enum gpusim_rc gpusim_model_put(struct gpusim *g, uint64_t training, uint64_t version,
				const void *npz, uint64_t nbytes);

/* ------------------------------------------------------------------ rehearsing failure */

enum gpusim_fault_kind {
	GPUSIM_FAULT_KILL = 0,	  /* the process kills itself */
	GPUSIM_FAULT_STOP = 1,	  /* it freezes */
	GPUSIM_FAULT_SLOW = 2,	  /* each step of a collective waits first */
	GPUSIM_FAULT_DROP = 3,	  /* frames to a peer are lost */
	GPUSIM_FAULT_CORRUPT = 4, /* a byte of a chunk changes on its way to a peer */
	GPUSIM_FAULT_CUT = 5,	  /* connections to peers close */
	GPUSIM_NFAULTS = 6,
};

#define GPUSIM_FAULTS_MAX 64 /* armed at a time */

struct gpusim_fault {
	enum gpusim_fault_kind kind;
	uint64_t comm;	 /* 0: any */
	int at;		 /* at a point of a collective; else now */
	int coll;	 /* enum gpusim_coll, or -1: any */
	int next;	 /* whichever comes next, else: */
	uint64_t op;	 /* the operation of this number */
	uint32_t step;	 /* of its plan, from 1; 0: the first it does */
	uint64_t for_ns; /* stop, slow, cut: how long; 0: stop for ever, cut only closes */
	uint64_t by_ns;	 /* slow: how long each step waits */
	uint64_t count;	 /* slow: steps, drop, corrupt: frames; 0: no limit */
	double p;	 /* drop, corrupt: how likely each frame; 0: every one */
	uint64_t seed;	 /* of that chance, and of which byte */
	int to_peer;	 /* drop, corrupt, cut: of one peer only: */
	uint32_t peer;
};

struct gpusim_injected {
	char (*armed)[GPUSIM_TEXT]; /* a line each */
	size_t narmed;
	uint64_t fired;	  /* faults that took place */
	uint64_t damaged; /* frames that came damaged, were named and asked for again */
};

/*
 * Arm faults on a device, or with device 0 on the coordinator (kill, stop, slow; now). They must have
 * been started with --allow-inject: else GPUSIM_INVAL.
 *
 *	clear	not 0: forget first what is armed
 *	out	what is armed now, or NULL; release with gpusim_injected_fini
 */
enum gpusim_rc gpusim_inject(struct gpusim *g, struct gpusim_device device, int clear,
			     const struct gpusim_fault *faults, size_t nfaults,
			     struct gpusim_injected *out);
void gpusim_injected_fini(struct gpusim_injected *i);

#ifdef __cplusplus
}
#endif
#endif
