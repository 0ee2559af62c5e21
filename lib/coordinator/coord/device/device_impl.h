/*
 * device_impl.h - what the files of this room share. Nobody else includes it.
 */
#ifndef COORD_DEVICE_IMPL_H
#define COORD_DEVICE_IMPL_H

#include "coord/device/device.h"

struct device {
	uint64_t id;
	GpuSim__DeviceMetadata *said; /* by the device, last; never without an address */
	uint32_t ordinal;
	uint32_t memories;	/* number of returns with another memory */
	bool spare;		/* used only by name, or in a lost rank's place */
	uint64_t heard_ms;	/* last message from it */
	uint64_t born_ms;	/* first message of its process */
	uint64_t registered_ms; /* last registration; 0: never */
	uint64_t reports;	/* number of reports of progress */
	uint64_t client_id;	/* as which it registers; 0: none */
	/* In time that the coordinator has listened (listen.c): */
	uint64_t word_at;  /* its last message */
	uint64_t heard_at; /* the same, or later if excused */
	uint64_t beat_at;  /* last count of heartbeats */
	uint64_t after;	   /* the echo that must be back before it is lost; 0: not missing */
	bool looked_at;	   /* the shell was asked to look at its process, since its last message */
	uint32_t stride;   /* it sends every n-th heartbeat; 0: not set yet */
	uint64_t missing;  /* bits of the heartbeats due by then, the last in bit 0; 1: missing */
	bool placed;	   /* the coordinator has set ordinal and spare */
	bool configured;   /* named by the configuration: never forgotten */
	bool unfit;	   /* as a spare: it has failed */
	uint32_t ncomms;   /* communicators it is in or reserved for */
	bool recorded;	   /* its record is up to date */
	struct call ask;   /* for its metadata, after a restart of the coordinator */
	bool lost;
	struct {
		char why[COORD_WHY_MAX]; /* "killed by signal 9" */
		uint64_t at_ms;		 /* wall clock */
		uint64_t incarnation;	 /* of the process that was lost */
		bool broke; /* known only from its connection: the exit status says more */
	} loss;		    /* when lost */
	struct {
		/* it was restarted, and must register by then; 0: not restarted */
		uint64_t until_ms;
		uint32_t pid;		    /* 0: unknown yet */
		unsigned tries;		    /* failed attempts */
		char cannot[COORD_WHY_MAX]; /* why it cannot return; "": it may */
	} spawn;
	uint64_t successor;  /* device that has taken its place and memory; 0: none */
	uint64_t discard_ms; /* when lost: earliest time to remove its memory */
	struct device *heir; /* the spare that is reserved to take its place */
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
	uint64_t silent; /* unanswered polls in a row */
	struct call call;
};

/* The time that the coordinator has listened: see listen.c. */
struct ear {
	uint64_t ms; /* listened so far */
	bool asked;  /* an echo is outstanding */
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
	const struct device_hooks *hooks;
	bool unrecorded; /* some device's record is out of date */
};

/* ---- device.c */

/* Its ordinal has changed: restore the order. */
void device_moved(struct coord *c, struct device *d);
/* Its record is out of date. */
void device_changed(struct coord *c, struct device *d);
/* Add an event of the device, "lost: killed by signal 9", after its name and rank. */
void event_device(struct coord *c, GpuSim__EventKind kind, const struct device *d, const char *fmt,
		  ...) __attribute__((format(printf, 4, 5)));
/* Heartbeats due since its last message. Half a heartbeat late is on time. */
uint64_t device_beats_silent(const struct coord *c, const struct device *d);
/* A message from the device has arrived. */
void device_alive(struct coord *c, struct device *d);
/* Its process and its memory are of this host. */
bool device_is_here(const struct coord *c, const struct device *d);
/* It has registered; end its restart. */
void device_came(struct device *d);
/* What is done about lost devices that no communicator holds. */
enum gpusim_on_failure device_policy(const struct coord *c);
/* "is being started again": what is done about a lost device; or "". */
void device_remedy(const struct coord *c, const struct device *d, char *text, size_t room);
/* The time since it was lost, in ms. */
uint64_t device_lost_for(const struct coord *c, const struct device *d);

/* ---- message.c */

/* Drop its record. */
void device_unrecord(struct coord *c, const struct device *d);

/* ---- registry.c */

/* Take metadata from a registration, or from the answer to a poll of fallback_address. */
enum rc device_heard(struct coord *c, const GpuSim__DeviceMetadata *m, const char *fallback_address,
		     struct device **out, struct err *err);
/* Declare it lost, with the reason: "killed by signal 9". */
void device_lose(struct coord *c, struct device *d, const char *why);
/* Forget the i-th device. */
void device_forget(struct coord *c, size_t i);

#endif
