/* protocol_out.c - what every step needs: actions and answers, and the communicators by number. */
#include "dev/protocol_impl.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

const struct err proto_fine;

bool
proto_owe(struct protocol *p, size_t more)
{
	size_t want = p->owed + more + 8;

	if (want > p->out_cap) {
		size_t cap = want + want / 2;
		struct protocol_action *v = alloc_resize(p->out, cap, sizeof *v);

		if (!v)
			return false;
		p->out = v;
		p->out_cap = cap;
	}
	p->owed += more;
	return true;
}

struct protocol_action *
proto_act(struct protocol *p, enum protocol_action_kind kind, uint64_t caller)
{
	struct protocol_action *a = &p->out[p->nout++];

	assert(p->nout <= p->out_cap); /* whoever acts has made room */
	*a = (struct protocol_action){.kind = kind, .caller = caller, .graph = PROTOCOL_NO_GRAPH};
	return a;
}

const struct err *
proto_say(struct protocol *p, enum rc rc, const char *fmt, ...)
{
	struct err *err = &p->said[p->nsaid++ % SAID_MAX];
	va_list ap;

	err->rc = rc;
	va_start(ap, fmt);
	vsnprintf(err->text, sizeof err->text, fmt, ap);
	va_end(ap);
	return err;
}

void
proto_answer(struct protocol *p, uint64_t caller, const struct err *err)
{
	proto_act(p, PROTOCOL_ANSWER, caller)->err = err;
}

const struct err *
proto_no_memory(struct protocol *p)
{
	return proto_say(p, RC_NOMEM, "out of memory");
}

uint64_t
proto_digest(uint64_t h, const void *data, size_t n)
{
	for (size_t i = 0; i < n; i++)
		h = (h ^ ((const unsigned char *)data)[i]) * 0x100000001b3ull;
	return h;
}

struct due *
proto_due_new(struct protocol *p, uint64_t caller, enum protocol_action_kind what)
{
	struct due *u = calloc(1, sizeof *u);

	if (!u)
		return NULL;
	u->caller = caller;
	u->what = what;
	u->next = p->due;
	p->due = u;
	proto_act(p, what, caller);
	return u;
}

struct pcomm *
proto_comm_find(const struct protocol *p, uint64_t id)
{
	struct pcomm *c = p->comm[id % COMM_BUCKETS];

	while (c && c->id != id)
		c = c->chain;
	return c;
}

const struct err *
proto_is_over(struct protocol *p, uint32_t epoch, uint64_t comm, uint32_t now)
{
	return proto_say(p, RC_ABORTED, "epoch %u is over, communicator %" PRIu64 " is at epoch %u",
			 epoch, comm, now);
}

struct pcomm *
proto_comm_at(struct protocol *p, uint64_t id, uint32_t epoch, const struct err **why)
{
	struct pcomm *c = proto_comm_find(p, id);

	if (!c)
		*why = proto_say(p, RC_NOTFOUND, "no communicator %" PRIu64 " on this device", id);
	else if (epoch < c->epoch)
		*why = proto_is_over(p, epoch, id, c->epoch);
	else if (epoch > c->epoch)
		*why = proto_say(p, RC_NOTFOUND,
				 "no epoch %u: communicator %" PRIu64 " is at epoch %u", epoch, id,
				 c->epoch);
	else
		return c;
	return NULL;
}
