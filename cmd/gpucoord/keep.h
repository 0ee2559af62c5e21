/*
 * keep.h - the recorders of this host's devices, kept as open files, so that a device can still be read
 * after it has ended and its file was removed.
 */
#ifndef GPUCOORD_KEEP_H
#define GPUCOORD_KEEP_H

#include "flight/read.h"
#include "wire/wire.h"

#define KEEP_FILES	1024	     /* open files */
#define KEEP_GONE	32	     /* copies of recorders whose files were removed, */
#define KEEP_GONE_BYTES (64ul << 20) /* and bytes of them */

struct keeper;
struct kept; /* a recorder, held */

/* Starts a thread. host: host_id() of this machine. RC_NOMEM. */
enum rc keeper_new(const char *host, struct keeper **out, struct err *err);
void keeper_free(struct keeper *k); /* when nothing is held; NULL is legal */

/* A device has registered, perhaps again: the keeper's thread opens its file. Returns at once. */
void keeper_hears(struct keeper *k, const GpuSim__DeviceMetadata *m);

/*
 * keeper_hold - hold the recorder of a device. A file that is not open yet is opened now.
 *
 *	m	as the coordinator lists the device
 *
 * RC_NOTFOUND: the device belongs to another host or user, has no recorder, or is unknown; RC_BADDATA: its
 * file is not the memory of that device; RC_FAILED.
 */
enum rc keeper_hold(struct keeper *k, const GpuSim__DeviceMetadata *m, struct kept **out,
		    struct err *err);
struct flight_source kept_source(struct kept *e);
void keeper_release(struct keeper *k, struct kept *e);

/* ---- devices on other hosts: their recorders, read by requests */

struct fars; /* connections, one per address; thread-safe */
struct far;  /* a recorder, held */

struct fars *fars_new(void);	/* NULL: out of memory */
void fars_free(struct fars *f); /* when nothing is held; NULL is legal */

/*
 * far_hold - hold the recorder at an address.
 *
 *	deadline_ns	of all reading
 *
 * If it does not answer, reading fails with RC_TIMEOUT or RC_UNREACHABLE, and it is not asked again for
 * FAR_AWAY_MS. Errors: the same, for a device that did not answer a moment ago; RC_BUSY too many addresses;
 * RC_NOMEM.
 */
#define FAR_AWAY_MS 2000
enum rc far_hold(struct fars *f, const char *address, uint64_t deadline_ns, struct far **out,
		 struct err *err);
struct flight_source far_source(struct far *h);
void far_release(struct fars *f, struct far *h);

#endif
