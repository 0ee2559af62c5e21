/*
 * A connection's bytes: calls are begun, fed, held, answered and ended, and every one that began
 * ends once. The first byte chooses the portions of the rest, and their delays.
 */
#include "fuzz.h"

#include "grpc/session.h"

static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";

static unsigned nbegun, nended;
static struct grpc_stream *held;

static bool
find(void *arg, const char *path, struct grpc_method *out)
{
	(void)arg;
	*out = (struct grpc_method){.many = path[0] && path[1] == 'm'};
	return path[0] == '/';
}

static void
begin(void *arg, struct grpc_stream *st)
{
	(void)arg;
	nbegun++;
	grpc_stream_keep(st, &nbegun);
}

static void
finish(struct grpc_stream *st, enum grpc_code code)
{
	if (st == held)
		held = NULL;
	nended++;
	grpc_stream_finish(st, code, code ? "a % sentence\n" : NULL);
}

/* A message decides the fate of its call. */
static void
message(void *arg, struct grpc_stream *st, const void *data, size_t nbytes)
{
	const uint8_t *p = data;
	void *room;

	(void)arg;
	require(grpc_stream_kept(st) == &nbegun && nbytes <= GRPC_MESSAGE_MAX);
	read_all(data, nbytes);
	switch (nbytes ? p[0] % 6 : 0) {
	case 0:
		room = grpc_stream_message(st, nbytes);
		if (room && nbytes)
			memcpy(room, data, nbytes);
		break;
	case 1:
		finish(st, nbytes > 1 ? p[1] % 17 : 0);
		break;
	case 2:
		if (!held) {
			held = st;
			grpc_stream_hold(st);
		}
		break;
	case 3:
		grpc_stream_wake(st, nbytes);
		break;
	case 4:
		grpc_stream_reserve(st, nbytes > 2 ? (size_t)p[1] << 14 : 0);
		break;
	default:
		if (held)
			grpc_stream_resume(held);
	}
}

static void
end(void *arg, struct grpc_stream *st)
{
	(void)arg;
	finish(st, 0);
}

static void
wake(void *arg, struct grpc_stream *st)
{
	(void)arg;
	if (held == st) {
		held = NULL;
		grpc_stream_resume(st);
	}
}

static void
gone(void *arg, struct grpc_stream *st)
{
	(void)arg;
	require(grpc_stream_kept(st) == &nbegun);
	if (st == held)
		held = NULL;
	nended++;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct grpc_events events = {.find = find,
						  .begin = begin,
						  .message = message,
						  .end = end,
						  .wake = wake,
						  .gone = gone};
	struct grpc_budget budget = {1u << 20};
	struct grpc_session *s;
	uint64_t now = 1, due = 0;
	size_t portion, total = 0;
	struct err err;
	bool good = true;

	if (size < 1 || grpc_session_new(&events, &budget, now, &s, &err) != RC_OK)
		return 0;
	nbegun = nended = 0;
	held = NULL;
	portion = (size_t)(data[0] & 15) * 37 + 1;
	if (data[0] & 16)
		good = grpc_session_recv(s, preface, sizeof preface - 1, now);
	for (size_t at = 1; good && at < size; at += portion) {
		const void *out;
		size_t n;

		good =
		    grpc_session_recv(s, data + at, size - at < portion ? size - at : portion, now);
		while ((n = grpc_session_send(s, &out, now)) > 0) {
			read_all(out, n);
			total += n;
		}
		now += (uint64_t)(data[0] >> 5) * 100000000;
		good &= grpc_session_tick(s, now, &due);
	}
	require(total < (64u << 20) + 64 * size);
	grpc_session_free(s);
	require(nbegun == nended && budget.left == 1u << 20);
	return 0;
}
