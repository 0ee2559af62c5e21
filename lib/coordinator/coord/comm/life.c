/*
 * life.c - the life of a communicator: a table of states and events. A test compares it with README.md.
 */
#include "coord/comm/comm_impl.h"

#include <inttypes.h>
#include <stdio.h>

#define BUSY (COMM_REPLACING | COMM_ATTACHING | COMM_JOINING | COMM_DEFINING)
#define STAY 0

static const struct row {
	unsigned from; /* states */
	enum comm_event on;
	unsigned to;
	comm_act *act;
} rows[] = {
    /* It is made. */
    {COMM_MAKING, COMM_ATTACHED, COMM_MEETING, comm_join},
    {COMM_MEETING, COMM_JOINED, COMM_LIVE, comm_made},
    {COMM_MAKING | COMM_MEETING, COMM_BROKEN, COMM_DETACHING, comm_refuse},
    {COMM_MAKING, COMM_RESUMED, STAY, comm_make_again},
    /* It fails. */
    {COMM_LIVE, COMM_FAILS, COMM_DRAINING, comm_drain},
    {COMM_LIVE, COMM_ABORTED, COMM_DRAINING, comm_drain},
    {COMM_DRAINING | BUSY, COMM_FAILS, STAY, comm_note},
    {COMM_DRAINING, COMM_ABORTED, STAY, comm_note_abort},
    {COMM_DRAINING, COMM_DRAINED, COMM_DECIDING, comm_decide},
    {COMM_DRAINING, COMM_RESUMED, COMM_LIVE, comm_recover_again},
    /* It recovers, or not. */
    {COMM_DECIDING, COMM_SHORT, COMM_REPLACING, replace_start},
    {COMM_DECIDING | COMM_REPLACING, COMM_COMPLETE, COMM_ATTACHING, comm_attach_again},
    {COMM_ATTACHING, COMM_ATTACHED, COMM_JOINING, comm_join},
    {COMM_JOINING, COMM_JOINED, COMM_DEFINING, comm_define},
    {COMM_DEFINING, COMM_DEFINED, COMM_LIVE, comm_go_live},
    {COMM_ATTACHING | COMM_JOINING | COMM_DEFINING, COMM_BROKEN, COMM_DECIDING, comm_decide_again},
    {COMM_DECIDING | COMM_REPLACING | COMM_ATTACHING, COMM_HOPELESS, COMM_FAILED, comm_give_up},
    {BUSY, COMM_ABORTED, COMM_FAILED, comm_abort_busy},
    /* Clients change it. */
    {COMM_LIVE | COMM_FAILED | COMM_DECIDING, COMM_CHANGED, COMM_ATTACHING, comm_renew},
    {COMM_LIVE | COMM_FAILED | COMM_DRAINING | BUSY, COMM_DESTROYED, COMM_DETACHING, comm_end},
    /* It ends. */
    {COMM_DETACHING, COMM_RESUMED, STAY, comm_detach},
    {COMM_DETACHING, COMM_DETACHED, COMM_GONE, comm_free_detached},
};

/* ---- the table as text */

static const char *const event_names[] = {"attached", "joined",	 "defined",   "broken",	 "fails",
					  "aborted",  "drained", "complete",  "short",	 "hopeless",
					  "changed",  "resumed", "destroyed", "detached"};

static void
name_states(unsigned states, char *text, size_t room)
{
	static const char *const names[] = {"making",	"meeting",  "live",	 "failed",
					    "draining", "deciding", "replacing", "attaching",
					    "joining",	"defining", "detaching", "gone"};
	size_t n = 0;

	for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
		if (states & 1u << i)
			n += (size_t)snprintf(text + n, room - n, "%s%s", n ? "|" : "", names[i]);
}

/* Note the step and its reason for the recorder. */
static void
note(struct coord *c, const struct comm *comm, enum comm_event e, unsigned to,
     const struct err *why)
{
	char from[40], next[40] = "same";

	name_states(comm->state, from, sizeof from);
	if (to != STAY)
		name_states(to, next, sizeof next);
	act_note(c, comm->id, 0, "comm %" PRIu64 " epoch %" PRIu32 ": %s --%s--> %s%s%s", comm->id,
		 comm->epoch, from, event_names[e], next, why ? ": " : "", why ? why->text : "");
}

/* ---- what happens */

void
comm_happens(struct coord *c, struct comm *comm, enum comm_event e, const struct err *why)
{
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (rows[i].from & comm->state && rows[i].on == e) {
			note(c, comm, e, rows[i].to, why);
			if (rows[i].to != STAY)
				comm->state = rows[i].to;
			rows[i].act(c, comm, why);
			return;
		}
}

void
comm_fail(struct coord *c, struct comm *comm, const struct err *why)
{
	comm_happens(c, comm, COMM_FAILS, why);
}

bool
comm_row(size_t i, char *text, size_t room)
{
	char from[120], to[120] = "same";

	if (i >= sizeof rows / sizeof *rows)
		return false;
	name_states(rows[i].from, from, sizeof from);
	name_states(rows[i].to, to, sizeof to);
	snprintf(text, room, "%s --%s--> %s", from, event_names[rows[i].on], to);
	return true;
}
