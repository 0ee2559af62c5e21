/*
 * device_impl.h - what the files of this room share. Nobody else includes it.
 */
#ifndef COORD_DEVICE_IMPL_H
#define COORD_DEVICE_IMPL_H

#include "coord/device/device.h"

struct device {
	uint64_t id;
	GpuSim__DeviceMetadata *said; /* by the device, last; it has an address */
	uint32_t ordinal;
	uint32_t memories; /* returns with another memory */
	bool spare;	   /* taken for a communicator only by name, or in a lost rank's place */
	uint64_t heard_ms; /* last word from it */
	uint64_t born_ms;  /* first word of its process */
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
	bool placed;	   /* the coordinator has set ordinal and spare */
	bool configured;   /* named by the configuration: never forgotten */
	bool unfit;	   /* as a spare: it was tried */
	uint32_t ncomms;   /* communicators it is in or reserved for */
	bool recorded;	   /* as it is now */
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
	uint64_t successor;  /* that has its place and memory, where it has lost them; 0: none */
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
	const struct device_hooks *hooks;
	bool unrecorded; /* of some device the record is not what it should be */
};

/* ---- registry.c */

/* Its metadata came, from the device itself or in answer to a poll of fallback_address. */
enum rc device_heard(struct coord *c, const GpuSim__DeviceMetadata *m, const char *fallback_address,
		     struct device **out, struct err *err);
/* A device has said something. */
void device_alive(struct coord *c, struct device *d);
/* It is lost, for that reason: "killed by signal 9". */
void device_lose(struct coord *c, struct device *d, const char *why);
void device_free(struct device *d);
/* Its ordinal has changed: move it to where it belongs. */
void device_moved(struct coord *c, struct device *d);
/* It has happened to that device, "lost: killed by signal 9". Its name and rank come first. */
void event_device(struct coord *c, GpuSim__EventKind kind, const struct device *d, const char *fmt,
		  ...) __attribute__((format(printf, 4, 5)));

/* ---- message.c */

/* Its record is no longer what it should be. */
void device_changed(struct coord *c, struct device *d);
/* Drop its record. */
void device_unrecord(struct coord *c, const struct device *d);

/* ---- listen.c */

/* How many heartbeats apart a device is to send its own, so that many devices do not drown us. */
uint32_t listen_stride(const struct coord *c);
/* All messages that had arrived when devices were found missing have been read. */
void devices_decide(struct coord *c);
/* Ask the shell about a device that is silent. missing: too many of its heartbeats are missing. */
void listen_tick(struct coord *c, struct device *d, bool missing);
/* A missing device is lost. False: heartbeats may wait to be read, or the shell is to look first. */
bool listen_decides(struct coord *c, struct device *d);
/* Whether that excuses its silence. */
bool listen_excuses(struct coord *c, struct device *d, enum coord_look found);

/* ---- care.c */

/* It has come, started by anyone. */
void device_came(struct device *d);
/* "is being started again": the future of a lost device; or "". */
void device_remedy(const struct coord *c, const struct device *d, char *text, size_t room);
/* Since it was lost, in ms. */
uint64_t device_lost_for(const struct coord *c, const struct device *d);
#endif
