/*
 * device.h - devices, and calls to them.
 */
#ifndef COORD_DEVICE_H
#define COORD_DEVICE_H

#include "coord/core/core.h"

struct comm;

struct device {
	uint64_t id, incarnation, min_addr, max_addr, used_bytes;
	uint32_t pid, ordinal;
	char address[WIRE_NAME_MAX], data_address[WIRE_NAME_MAX];
	char mem_path[WIRE_NAME_MAX], host[WIRE_NAME_MAX];
	char mem_private[WIRE_NAME_MAX];
	uint64_t mem_dev, mem_inode;
	uint32_t mem_user;
	uint32_t threads; /* with what follows: how to start it again */
	uint64_t latency_ns, bits_per_s;
	char kernels[WIRE_NAME_MAX];
	char grpc_address[WIRE_NAME_MAX];
	bool mem_kept;
	bool supervised;   /* somebody else starts it again */
	uint32_t memories; /* so often it came back with another memory */
	bool spare;	   /* taken for a communicator only by name, or in a lost rank's place */
	bool join;	   /* offers itself to communicators that grow */
	uint64_t heard_ms; /* last word from it */
	uint64_t registered_ms; /* last time it came by itself; 0: never */
	uint64_t reports;	/* of progress that came; counts from 1 */
	uint64_t client_id;	/* it registers as; 0: it has not */
	/* In time that was listened to (listen.c): */
	uint64_t word_at;  /* its last word */
	uint64_t heard_at; /* that, or later if it was excused */
	uint64_t beat_at;  /* when heartbeats were counted last */
	uint64_t after;	   /* the echo that must be back before it is lost; 0: it is not missing */
	bool looked_at;	   /* since its last word: the shell was asked to look at its process */
	uint32_t stride;   /* it was told to send every so-manieth heartbeat; 0: nothing yet */
	uint64_t missing;  /* of the heartbeats owed by then, the last in bit 0: 1 is missing */
	bool placed;	   /* ordinal and spare are what we have made them */
	bool configured;   /* named by the configuration: never forgotten */
	bool unfit;	   /* as a spare: it was tried */
	uint32_t ncomms;   /* communicators it is in or reserved for */
	bool kept;	   /* as it is now */
	struct call ask;   /* who it is, after a restart of ours */
	bool lost;
	struct {
		char why[COORD_WHY_MAX]; /* "killed by signal 9" */
		uint64_t at_ms;		 /* of the wall's clock */
		uint64_t incarnation;	 /* of the process that was lost */
		bool broke; /* known by its connection alone: its exit status says more */
	} loss;		    /* when lost */
	struct {
		uint64_t
		    until_ms;	/* it was started again, and has so long to come; 0: it was not */
		uint32_t pid;	/* 0: not known yet */
		unsigned tries; /* of which none came */
		char cannot[COORD_WHY_MAX]; /* why it does not come back; "": it may */
	} spawn;
	uint64_t discard_ms; /* when lost: its memory is not asked to be removed before */
	struct device *heir; /* a spare that is about to take its place, and is reserved for it */
	struct call adopt;   /* of the heir */
};

struct call_list {
	struct call *first, *last;
};

#define CALL_BUCKETS 1024

struct config_device {
	uint64_t id; /* 0: any */
	char address[WIRE_NAME_MAX];
	uint64_t next_ms;
	bool said_wrong, said_silent;
	uint64_t silent; /* polls in a row that nobody answered */
	struct call call;
};

/* Answers that are stored, of one client, the newest last. */
/* How much of the time the coordinator has listened: see listen.c. */
struct ear {
	uint64_t ms; /* by now */
	bool asked;  /* for an echo, which is not back */
	uint64_t asked_ms, held_ms;
	uint64_t sent, back; /* echoes; the last one's number */
};

struct devices {
	struct device *v[COORD_MAX_DEVICES]; /* sorted by (ordinal, id) */
	size_t n;
	struct config_device *config;
	size_t nconfig;
	struct ear ear;
	struct call_list live, dead;
	struct call *by_token[CALL_BUCKETS];
	uint64_t last_token;
	const GpuSim__Failure *failure; /* of the reply that is being handed on, or NULL */
};

/* ---- call.c */

/* Start a call; takes the body. A NULL-data body stands for one that could not be made. */
void call_start(struct coord *c, struct call *call, struct device *dev, const char *address,
		uint64_t timeout_ms, struct buf *body);
/* Forget it: its owner will not hear of it. Legal in every state. */
void call_cancel(struct coord *c, struct call *call);
void calls_fail_device(struct coord *c, const struct device *dev, enum call_state why);
void calls_result(struct coord *c, const struct coord_event *ev);
void calls_tick(struct coord *c);
void calls_settle(struct coord *c);
/* "comm 3 rank 2 (device 00..7f): why", or, of a device that is gone, "... lost: why". comm may be
 * NULL. */
enum rc call_blame(const struct comm *comm, const struct call *call, const struct err *why,
		   struct err *out);
/* How long a control call to a device may take. */
uint64_t call_timeout_ms(const struct coord *c);

/* ---- registry.c */

struct device_msg {
	GpuSim__DeviceMetadata m;
	GpuSim__DeviceId id;
	GpuSim__MemAddr min, max;
	GpuSim__DeviceLoss loss;
	char remedy[COORD_WHY_MAX];
};

/* Metadata messages that borrow from the devices; valid until the next event. */
struct device_msgs {
	struct device_msg *v;
	GpuSim__DeviceMetadata **p;
	size_t n;
};

bool device_msgs_init(struct coord *c, struct device *const *dev, size_t n,
		      struct device_msgs *out);
bool device_msgs_of_comm(struct coord *c, const struct comm *comm, struct device_msgs *out);
void device_msgs_fini(struct device_msgs *m);
struct device *device_find(struct coord *c, uint64_t id);
bool device_is_free(const struct device *d);
/* Why the device is lost, in *err. */
enum rc device_lost(const struct device *d, struct err *err);
/* Its metadata came, from the device itself or in answer to a poll of fallback_address. */
enum rc device_heard(struct coord *c, const GpuSim__DeviceMetadata *m, const char *fallback_address,
		     struct device **out, struct err *err);
void device_alive(struct coord *c, struct device *d);
/* It is lost, for that reason: "killed by signal 9". */
void device_lose(struct coord *c, struct device *d, const char *why);
/* It has another place, or is a spare or none any more: by its ordinal it may belong elsewhere. */
void device_moved(struct coord *c, struct device *d);
/* Nobody listens any more at the address where it was called. */
void device_unreachable(struct coord *c, uint64_t id, const char *address);
/* The client that a device registers as has closed its last connection: see whether it is there. */
void device_hung_up(struct coord *c, uint64_t client_id);
void devices_tick(struct coord *c);
/* What the shell has found at the process of a device that is silent. */
void device_looked(struct coord *c, uint64_t id, enum coord_look found);
/* What had come when devices were found missing has been read. */
void devices_decide(struct coord *c);

/* ---- listen.c */

/* Time has passed since the step before. */
void listen_step(struct coord *c, uint64_t now_ms);
/* The echo is back, or will not come. */
void listen_echo(struct coord *c);
/* How many heartbeats apart a device is to send its own, so that many devices do not drown us. */
uint32_t listen_stride(const struct coord *c);
/* Ask what is to be known of a device that is silent. missing: its heartbeats are. */
void listen_tick(struct coord *c, struct device *d, bool missing);
/* Of one that is missing. False: what has come is not read yet, or the shell is to look first. */
bool listen_decides(struct coord *c, struct device *d);
/* Whether that excuses its silence. */
bool listen_excuses(struct coord *c, struct device *d, enum coord_look found);

/* ---- care.c */

/* Lost devices that no communicator has: they are started again, or a spare takes their place. */
void care_tick(struct coord *c);
/* Start it again, on this host, and wait for it. */
void device_spawn(struct coord *c, struct device *d);
/* A supervised one of this host: end what is left of its process, so that it is started again. */
void device_end(struct coord *c, struct device *d);
bool device_can_spawn(const struct coord *c, const struct device *d);
/* It has come, whoever started it. */
void device_came(struct device *d);
/* What became of the order to start it; a process has ended. */
void device_spawned(struct coord *c, const struct coord_event *ev);
void device_exited(struct coord *c, uint32_t pid, int status);
/* Is it lost, and about to be back, or a spare about to be in its place? */
bool device_returns(const struct coord *c, const struct device *d);
/* What becomes of one that is lost: "is being started again"; or "". */
void device_remedy(const struct coord *c, const struct device *d, char *text, size_t room);
/* Since it was lost, in ms. */
uint64_t device_lost_for(const struct coord *c, const struct device *d);
/* "; device 2 (..) was lost 3.1 s ago: killed by signal 9", of the spares that are lost, or of all others;
 * or "". */
void devices_name_lost(const struct coord *c, bool spares, char *text, size_t room);
/* The order to the spare to take over the lost one's memory; false: that cannot be reached from there. */
bool adopt_pack(const struct device *lost, const struct device *spare, struct buf *body);
/* The spare is an ordinary device from now on, in the lost one's place; that is a spare if it comes back. */
void device_replace(struct coord *c, struct device *lost, struct device *spare);
/* ---- poll.c */
void polls_tick(struct coord *c);

/* ---- replace.c */

/* The best device for a lost one's place: a spare before any other, one that can reach its memory before
 * one that cannot. spares: nothing but a spare. NULL: none is free. */
struct device *device_find_spare(const struct coord *c, const struct device *lost, bool spares);

handler on_register;
handler on_ping;

#endif
