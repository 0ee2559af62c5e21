/*
 * call.h - calls to devices: each ends exactly once, by a result, a lost device or its deadline.
 *
 * A call is part of the object that waits for it (a rank of a run, a member of a communicator), so
 * starting one needs no memory. The owner cancels the call before it frees the object. Late results are
 * ignored.
 *
 * No recursion: a call that fails as it starts (lost device, out of memory) ends with the step, in order.
 */
#ifndef COORD_CALL_H
#define COORD_CALL_H

#include "coord/core/core.h"

struct device;

/* How a call has ended. */
struct outcome {
	struct err err;
	const GpuSim__Reply *reply; /* the device's answer; NULL unless err.rc is RC_OK */
	const GpuSim__Failure
	    *failure; /* the device's report on an operation that failed, or NULL */
	struct device *dev;
	bool answered; /* by the device, with success or failure */
	bool refused;  /* the request had no effect at the device */
	bool gone;     /* the device was lost, or restarted */
	bool nomem;    /* the call could not be made */
};

typedef void call_done(struct coord *c, void *owner, uint32_t rank, const struct outcome *o);

enum call_state {
	CALL_IDLE, /* not started, ended, or cancelled */
	CALL_LIVE, /* a result is due from the shell */
	CALL_LOST, /* the rest are failures on their way to the owner */
	CALL_RESTARTED,
	CALL_OVERDUE,
	CALL_NOMEM,
};

/* Its fields are call.c's. {0} is idle. */
struct call {
	struct call *next, *prev; /* in the list of live ones, or of dead ones */
	struct call *chain;	  /* in a bucket of the table of tokens */
	enum call_state state;
	uint64_t token, since_ms, overdue_ms;
	struct device *dev; /* NULL: an address that has not answered yet */
	call_done *done;
	void *owner;
	uint32_t rank;
};

/* Call a device. done(owner, rank) gets the outcome. Takes the body; a body without data means that packing
 * failed. */
void call_start(struct coord *c, struct call *call, struct device *dev, call_done *done,
		void *owner, uint32_t rank, uint64_t timeout_ms, struct buf *body);
/* The same by address. */
void call_address(struct coord *c, struct call *call, const char *address, call_done *done,
		  void *owner, uint64_t timeout_ms, struct buf *body);
/* Cancel: the owner is not told. Legal in every state. */
void call_cancel(struct coord *c, struct call *call);
bool call_is_idle(const struct call *call);
/* A result is due from the shell; the time of the call. */
bool call_is_live(const struct call *call);
uint64_t call_since_ms(const struct call *call);
/* How long a control call to a device may take. */
uint64_t call_timeout_ms(const struct coord *c);
/* "comm 3 rank 2 (device 00..7f): why", or, of a lost device, "... lost: why". comm 0: without. */
enum rc call_culprit(uint64_t comm, uint32_t rank, const struct outcome *o, struct err *out);

/* All calls to the device fail for that reason. */
void calls_fail_device(struct coord *c, const struct device *dev, enum call_state why);
void calls_result(struct coord *c, const struct coord_event *ev);
void calls_tick(struct coord *c);
/* Tell owners of failed calls. */
void calls_settle(struct coord *c);
bool calls_unsettled(const struct coord *c);

#endif
