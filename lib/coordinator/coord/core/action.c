#include "coord/core/core.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool
act(struct coord *c, struct coord_action *a)
{
	struct coord_actions *out = c->out;

	if (!alloc_room(&out->v, out->n, &out->cap, sizeof *out->v)) {
		buf_fini(&a->body);
		return false;
	}
	out->v[out->n++] = *a;
	return true;
}

void *
messages_new(size_t n, const ProtobufCMessageDescriptor *kind)
{
	void **p = alloc_zeroed(n + 1, sizeof *p + kind->sizeof_message);
	char *at = (char *)(p + n);

	for (size_t i = 0; p && i < n; i++, at += kind->sizeof_message) {
		protobuf_c_message_init(kind, at);
		p[i] = at;
	}
	return p;
}

bool
pack_request(uint32_t field, const ProtobufCMessage *head, const struct buf *tail, struct buf *body)
{
	struct buf b = {0};
	size_t ntail = tail ? tail->len : 0;

	if (!buf_pack_head(&b, field, protobuf_c_message_get_packed_size(head) + ntail) ||
	    !buf_pack(&b, head) || (ntail && !buf_add(&b, tail->data, ntail))) {
		buf_fini(&b);
		return false;
	}
	*body = b;
	return true;
}

static void
tell(struct coord *c, struct coord_action a, const char *fmt, va_list ap)
{
	char line[sizeof((struct err *)0)->text + 128];

	vsnprintf(line, sizeof line, fmt, ap);
	if (buf_add(&a.body, line, strlen(line) + 1))
		act(c, &a);
}

void
act_log(struct coord *c, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	tell(c, (struct coord_action){.kind = COORD_LOG}, fmt, ap);
	va_end(ap);
}

void
act_note(struct coord *c, uint64_t comm_id, uint64_t device_id, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	tell(c,
	     (struct coord_action){.kind = COORD_NOTE, .comm_id = comm_id, .device_id = device_id},
	     fmt, ap);
	va_end(ap);
}

void
text_add(struct text *t, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(t->at, t->room, fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= t->room)
		n = t->room ? (int)t->room - 1 : 0;
	t->at += n;
	t->room -= (size_t)n;
}

bool
act_call(struct coord *c, uint64_t token, uint64_t device_id, const char *address,
	 uint64_t timeout_ms, struct buf *body)
{
	struct coord_action a = {.kind = COORD_CALL,
				 .token = token,
				 .device_id = device_id,
				 .timeout_ms = timeout_ms,
				 .body = *body};

	*body = (struct buf){0};
	snprintf(a.address, sizeof a.address, "%s", address);
	return act(c, &a);
}

void
coord_actions_clear(struct coord_actions *a)
{
	for (size_t i = 0; i < a->n; i++)
		buf_fini(&a->v[i].body);
	a->n = 0;
}

void
coord_actions_fini(struct coord_actions *a)
{
	coord_actions_clear(a);
	free(a->v);
	*a = (struct coord_actions){0};
}
