/*
 * coord_harness.h - drives coord_step and plays the devices and clients around it; linked with
 * coord_harness.c.
 *
 * Time is a number. Devices 1 .. ndev answer when a test says so (serve, reply_*). Every answer is
 * kept by token, and counted, so that a second one is noticed.
 */
#ifndef COORD_HARNESS_H
#define COORD_HARNESS_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coord/coord.h"
#include "tap.h"
#include "wire/wire.h"

#define H_MIN	     0x10000u
#define H_MAX	     0x90000u
#define H_MAX_DEV    64
#define H_GRACE_MS   1000u
#define H_LOST_MS    5000u
#define H_BEAT_MS    1000u
#define H_TIMEOUT_MS 60000u
#define H_RESPAWN_MS 3000u
#define H_COMM_MS    40000u
#define H_EPOCH_MS   1000000000ull /* the wall's clock when now is 0 */
#define H_HOST	     "this-host"

struct h_call {
	uint64_t token, device_id, timeout_ms, since_ms;
	char address[256];
	GpuSim__Request *req;
};

struct h_answer {
	uint64_t token;
	unsigned count;
	GpuSim__Reply *reply;
	struct buf req; /* packed, to be repeated */
	uint64_t deadline_ms;
	struct buf remembered; /* not yet an answer to anyone */
};

/* The store's records, in order of keys. */
struct h_record {
	char key[256];
	struct buf value;
};

/* How a device answers an attach. */
struct h_offer {
	uint64_t block;	 /* of its control block; 0: it shares no memory and answers "done" */
	uint64_t unseen; /* bit id % 64: the device whose memory it does not map */
	size_t entries;	 /* in its list, wrongly; 0: one a rank */
};

struct harness {
	struct coord *c;
	struct coord_actions out;
	uint64_t now;
	uint64_t last_token;
	uint32_t timeout_ms; /* of requests */
	struct h_call *call; /* not answered yet, in order */
	size_t ncall;
	struct h_answer *answer; /* [token - 1] */
	bool alive[H_MAX_DEV + 1];
	uint64_t latency_ns;	       /* of the links of devices that register from now on */
	bool supervised;	       /* all devices are */
	uint64_t inode[H_MAX_DEV + 1]; /* of their memory files */
	uint64_t incarnation[H_MAX_DEV + 1];
	struct h_offer offer[H_MAX_DEV + 1];
	unsigned spawned[H_MAX_DEV + 1];   /* times it was to be started again */
	unsigned discarded[H_MAX_DEV + 1]; /* times its memory was to be removed */
	enum gpusim_on_failure policy;	   /* of communicators to be made */
	uint32_t own_policy;		   /* of the coordinator to be made */
	bool spare[H_MAX_DEV + 1];
	uint64_t used[H_MAX_DEV + 1]; /* bytes */
	struct buf log;
	struct h_record *record;
	size_t nrecord, nstored;  /* records; and actions that stored */
	uint64_t hash;		  /* of all actions */
	unsigned bad;		  /* actions that no shell could execute */
	bool deaf;		  /* echoes do not come back for now */
	bool echo;		  /* one is in flight */
	bool look[H_MAX_DEV + 1]; /* asked for */
	enum coord_look found[H_MAX_DEV + 1];
	unsigned looks;
	bool proving, slow_proofs; /* an algorithm waits for its proof; only by h_prove */
	uint64_t proof_token;
	struct buf proof_ask;
	unsigned nreports; /* that were to be written; */
	struct buf report; /* the last of them, packed */
};

/* Number of the next report that a coordinator may claim; 0, as at the beginning: none. */
extern uint64_t h_next_report;
#define H_REPORTS "~/reports"

void h_hash(struct harness *h, const void *p, size_t n);
void h_take_answer(struct harness *h, const struct coord_action *a);
void h_take_call(struct harness *h, const struct coord_action *a);
/* Keep an answer in its place, or drop it. Answers come before anything else. */
void h_take_store(struct harness *h, const struct coord_action *a, size_t i);
void h_carry_out(struct harness *h);
void h_feed(struct harness *h, const struct coord_event *ev);
/* Prove the waiting algorithms, one after the other. */
void h_prove(struct harness *h);
/* Report the requests about devices' processes. */
void h_look(struct harness *h);
void h_step(struct harness *h, const struct coord_event *ev);
struct coord *h_coord_with(uint64_t instance, const struct tuner *tuner, uint32_t on_failure);
struct coord *h_coord(uint64_t instance, const struct tuner *tuner);
void h_init_with(struct harness *h, const struct tuner *tuner);
void h_init(struct harness *h);
void h_drop_call(struct harness *h, size_t i);
void h_fini(struct harness *h);

/* ---- requests */

uint64_t h_send(struct harness *h, uint64_t client, GpuSim__Request *req);
/* Repeat the request of this token; for the coordinator it is another caller. */
void h_repeat(struct harness *h, uint64_t token);
/* kill -9, and another coordinator on the same records. Pending calls to devices end without an answer. */
void h_crash(struct harness *h);
/* All clients without an answer repeat their requests. */
void h_repeat_all(struct harness *h);

/* Send a request with one body: h_ask(h, 9, COMM_DESTROY, commdestroy, &q) */
#define h_ask(h, client, CASE, member, q)                        \
	({                                                       \
		GpuSim__Request h_req = GPU_SIM__REQUEST__INIT;  \
		h_req.body_case = GPU_SIM__REQUEST__BODY_##CASE; \
		h_req.member = (q);                              \
		h_send(h, client, &h_req);                       \
	})

/* The answer, or NULL if there is none yet. */
GpuSim__Reply *h_reply(struct harness *h, uint64_t token);
/* The result of a request: RC_OK, its failure, or -1 for none (or two) yet. */
int h_code(struct harness *h, uint64_t token);
const char *h_text(struct harness *h, uint64_t token);
/* One check: the request failed with this code and exactly this message. */
bool h_failed(struct harness *h, uint64_t token, int code, const char *text);

/* ---- devices */

struct h_metadata {
	GpuSim__DeviceMetadata m;
	GpuSim__DeviceId id;
	GpuSim__MemAddr min, max;
	char address[64];
};

/* Each process a different one. */
uint32_t h_pid(const struct harness *h, uint64_t id);
void h_metadata(const struct harness *h, uint64_t id, struct h_metadata *out);
uint64_t h_register(struct harness *h, uint64_t id);
void h_devices(struct harness *h, uint64_t n);
/* Time passes; live devices send their heartbeats. */
void h_advance(struct harness *h, uint64_t ms);
/* Answer call i with the reply, or (NULL) end it with rc and text. */
void h_end_call(struct harness *h, size_t i, GpuSim__Reply *reply, enum rc rc, const char *text);
void h_refuse(struct harness *h, size_t i, enum rc rc, const char *text);
/* The answer of a device that shares memory to an attach. */
void h_mapped(const struct h_offer *o, const GpuSim__CommAttachRequest *q,
	      protobuf_c_boolean *mapped, GpuSim__CommAttachResponse *out);
/* The device does what it is told. A run's times name its device; a read gives bytes of 'x'. */
void h_accept(struct harness *h, size_t i);
/* Accept everything until no request is left. */
void h_serve(struct harness *h);
/* The first open call of this kind to this device (0: any); -1: none. */
long h_find(const struct harness *h, GpuSim__Request__BodyCase kind, uint64_t device_id);
size_t h_count(const struct harness *h, GpuSim__Request__BodyCase kind);

#define H_RUN	 GPU_SIM__REQUEST__BODY_RUN
#define H_ABORT	 GPU_SIM__REQUEST__BODY_COMM_ABORT
#define H_ATTACH GPU_SIM__REQUEST__BODY_COMM_ATTACH
#define H_JOIN	 GPU_SIM__REQUEST__BODY_COMM_JOIN
#define H_DETACH GPU_SIM__REQUEST__BODY_COMM_DETACH
#define H_DEFINE GPU_SIM__REQUEST__BODY_GRAPH_DEFINE
#define H_DROP	 GPU_SIM__REQUEST__BODY_GRAPH_DROP
#define H_ADOPT	 GPU_SIM__REQUEST__BODY_ADOPT

/* ---- common requests */

uint64_t h_comm_init(struct harness *h, uint64_t client, uint32_t n, bool lease);
/* A communicator over n free devices that all accept; its id. */
uint64_t h_comm(struct harness *h, uint64_t client, uint32_t n);
uint64_t h_status(struct harness *h, uint64_t client, uint64_t comm, bool wait);
/* A communicator's paths, or NULL. */
const uint8_t *h_paths(struct harness *h, uint64_t comm);
uint64_t h_shrink(struct harness *h, uint64_t client, uint64_t comm, const uint32_t *ranks,
		  size_t n);
uint64_t h_grow(struct harness *h, uint64_t client, uint64_t comm, uint32_t n);
uint64_t h_comm_abort(struct harness *h, uint64_t client, uint64_t comm, const char *reason);
uint64_t h_destroy(struct harness *h, uint64_t client, uint64_t comm);

/* ---- operations: a submit that is built rank by rank */

#define H_MAX_RANKS 64
#define H_MAX_OPS   16

struct h_ops {
	GpuSim__Coll coll[H_MAX_RANKS][H_MAX_OPS];
	GpuSim__Launch launch[H_MAX_RANKS][H_MAX_OPS];
	GpuSim__Op op[H_MAX_RANKS][H_MAX_OPS], *opp[H_MAX_RANKS][H_MAX_OPS];
	GpuSim__RankOps rank[H_MAX_RANKS], *rankp[H_MAX_RANKS];
	uint32_t nranks;
};

void h_ops_init(struct h_ops *o, uint32_t nranks);
GpuSim__Op *h_op(struct h_ops *o, uint32_t r);
/* One more collective (or send, recv) for rank r; a 4-byte type, buffers at H_MIN. */
GpuSim__Coll *h_coll(struct h_ops *o, uint32_t r, enum gpusim_coll coll, uint64_t nelem,
		     uint32_t root);
void h_launch(struct h_ops *o, uint32_t r);
void h_allreduce(struct h_ops *o, uint32_t nranks, uint64_t nelem);
uint64_t h_submit(struct harness *h, uint64_t client, uint64_t comm, struct h_ops *o, bool wait);
uint64_t h_group_start(struct harness *h, uint64_t client, uint64_t comm);
uint64_t h_group_end(struct harness *h, uint64_t client, uint64_t comm, bool wait);
void h_gone(struct harness *h, uint64_t client);
/* The client of that request stops waiting. */
void h_cancel(struct harness *h, uint64_t token);
/* No bad action and no second answer so far. */
bool h_clean(const struct harness *h);

#endif
