/*
 * A connection's HTTP/2 and gRPC, bytes in and bytes out: calls, their limits, clients that break the rules.
 * The client is nghttp2's own session, or raw bytes.
 */
#include <nghttp2/nghttp2.h>
#include <string.h>

#include "base/clock.h"
#include "grpc/descriptor.h"
#include "grpc/session.h"
#include "tap.h"

#include "base/buf.h"

#define CALLS 2200 /* of one client, at most */

/* ---- the server: what it is told */

static unsigned nbegun, nmessages, nended, ngone, nwoken;
static size_t message_bytes;
static bool echo = true, hold;
static struct grpc_stream *last;

static bool
find(void *arg, const char *path, struct grpc_method *out)
{
	(void)arg;
	*out = (struct grpc_method){.many = strcmp(path, "/s/many") == 0};
	return strcmp(path, "/s/one") == 0 || out->many;
}

static void
begin(void *arg, struct grpc_stream *st)
{
	(void)arg;
	nbegun++;
	last = st;
}

static void
message(void *arg, struct grpc_stream *st, const void *data, size_t nbytes)
{
	void *room;

	(void)arg;
	nmessages++;
	message_bytes = nbytes;
	if (hold)
		grpc_stream_hold(st);
	if (!echo)
		return;
	room = grpc_stream_message(st, nbytes);
	if (nbytes)
		memcpy(room, data, nbytes);
	if (!grpc_stream_method(st)->many)
		grpc_stream_finish(st, GRPC_OK, NULL);
}

static void
end(void *arg, struct grpc_stream *st)
{
	(void)arg;
	nended++;
	if (echo && grpc_stream_method(st)->many)
		grpc_stream_finish(st, GRPC_OK, NULL);
}

static void
wake(void *arg, struct grpc_stream *st)
{
	(void)arg;
	(void)st;
	nwoken++;
}

static void
gone(void *arg, struct grpc_stream *st)
{
	(void)arg;
	(void)st;
	ngone++;
}

static const struct grpc_events events = {
    .find = find, .begin = begin, .message = message, .end = end, .wake = wake, .gone = gone};

/* ---- the client */

struct answer {
	int http, grpc; /* statuses; -1: none */
	char text[256];
	size_t nbytes; /* of messages and their prefixes */
	bool closed;
	uint32_t reset;
	const unsigned char *send;
	size_t nsend, sent;
	bool open; /* more may come than nsend bytes */
};

struct world {
	struct grpc_budget budget;
	struct grpc_session *server;
	nghttp2_session *client;
	uint64_t now_ns;
	bool alive; /* the server says so */
	uint32_t goaway;
	struct answer answer[CALLS];
};

static struct world w;

static int
on_header(nghttp2_session *h2, const nghttp2_frame *f, const uint8_t *name, size_t nname,
	  const uint8_t *value, size_t nvalue, uint8_t flags, void *arg)
{
	struct answer *a = nghttp2_session_get_stream_user_data(h2, f->hd.stream_id);

	(void)nname;
	(void)flags;
	(void)arg;
	if (strcmp((const char *)name, ":status") == 0)
		a->http = atoi((const char *)value);
	else if (strcmp((const char *)name, "grpc-status") == 0)
		a->grpc = atoi((const char *)value);
	else if (strcmp((const char *)name, "grpc-message") == 0)
		snprintf(a->text, sizeof a->text, "%.*s", (int)nvalue, (const char *)value);
	return 0;
}

static int
on_data(nghttp2_session *h2, uint8_t flags, int32_t id, const uint8_t *data, size_t n, void *arg)
{
	struct answer *a = nghttp2_session_get_stream_user_data(h2, id);

	(void)flags;
	(void)data;
	(void)arg;
	a->nbytes += n;
	return 0;
}

static int
on_close(nghttp2_session *h2, int32_t id, uint32_t code, void *arg)
{
	struct answer *a = nghttp2_session_get_stream_user_data(h2, id);

	(void)arg;
	a->closed = true;
	a->reset = code;
	return 0;
}

static int
on_frame(nghttp2_session *h2, const nghttp2_frame *f, void *arg)
{
	(void)h2;
	(void)arg;
	if (f->hd.type == NGHTTP2_GOAWAY)
		w.goaway = f->goaway.error_code;
	return 0;
}

static ssize_t
on_read(nghttp2_session *h2, int32_t id, uint8_t *to, size_t room, uint32_t *flags,
	nghttp2_data_source *source, void *arg)
{
	struct answer *a = source->ptr;
	size_t left = a->nsend - a->sent, n = left < room ? left : room;

	(void)h2;
	(void)id;
	(void)arg;
	if (n)
		memcpy(to, a->send + a->sent, n);
	a->sent += n;
	if (a->sent == a->nsend && a->open)
		return n ? (ssize_t)n : NGHTTP2_ERR_DEFERRED;
	if (a->sent == a->nsend)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	return (ssize_t)n;
}

static void
world_begin(size_t budget)
{
	nghttp2_session_callbacks *cb;
	struct err err;

	memset(&w, 0, sizeof w);
	nbegun = nmessages = nended = ngone = nwoken = 0;
	echo = true;
	hold = false;
	w.now_ns = 1000 * NS_PER_SEC;
	w.alive = true;
	w.budget.left = budget;
	if (grpc_session_new(&events, &w.budget, w.now_ns, &w.server, &err) != RC_OK ||
	    nghttp2_session_callbacks_new(&cb) != 0)
		tap_bail("no memory");
	nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
	nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_close);
	nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
	nghttp2_session_client_new(&w.client, cb, NULL);
	nghttp2_session_callbacks_del(cb);
	nghttp2_submit_settings(w.client, NGHTTP2_FLAG_NONE, NULL, 0);
}

static void
world_end(void)
{
	nghttp2_session_del(w.client);
	grpc_session_free(w.server);
}

/* Time passes, and bytes go both ways until nobody has any. */
static void
exchange(void)
{
	uint64_t due = UINT64_MAX;
	bool moved = true;

	while (moved) {
		const uint8_t *out;
		const void *in;
		ssize_t n;
		size_t m;

		w.alive &= grpc_session_tick(w.server, w.now_ns, &due);
		n = nghttp2_session_mem_send(w.client, &out);

		moved = n > 0;
		if (n > 0)
			w.alive &= grpc_session_recv(w.server, out, (size_t)n, w.now_ns);
		while ((m = grpc_session_send(w.server, &in, w.now_ns)) > 0) {
			nghttp2_session_mem_recv(w.client, in, m);
			moved = true;
		}
	}
}

#define FIELD(name, value)                                                            \
	(nghttp2_nv)                                                                  \
	{                                                                             \
		(uint8_t *)(name), (uint8_t *)(value), strlen(name), strlen(value), 0 \
	}

struct head {
	const char *method, *path, *type, *te, *name, *value;
};

/* A call that sends so many bytes; its stream. */
static int32_t
call(size_t k, const struct head *h, const void *data, size_t nbytes, bool open)
{
	struct answer *a = &w.answer[k];
	nghttp2_data_provider body = {.source.ptr = a, .read_callback = on_read};
	nghttp2_nv nv[8] = {FIELD(":method", h->method ? h->method : "POST"),
			    FIELD(":scheme", "http"), FIELD(":authority", "a"),
			    FIELD(":path", h->path ? h->path : "/s/one"),
			    FIELD("content-type", h->type ? h->type : "application/grpc")};
	size_t n = 5;

	*a = (struct answer){.http = -1, .grpc = -1, .send = data, .nsend = nbytes, .open = open};
	if (!h->te || *h->te)
		nv[n++] = FIELD("te", h->te ? h->te : "trailers");
	if (h->name)
		nv[n++] = FIELD(h->name, h->value);
	return nghttp2_submit_request(w.client, NULL, nv, n, &body, a);
}

/* ---- texts */

static void
test_texts(void)
{
	static const struct {
		const char *text;
		uint64_t ns; /* 1: none */
	} timeout[] = {{"1H", 3600000000000},
		       {"2M", 120000000000},
		       {"3S", 3000000000},
		       {"100m", 100000000},
		       {"7u", 7000},
		       {"99999999n", 99999999},
		       {"99999999H", UINT64_MAX},
		       {"", 1},
		       {"m", 1},
		       {"123456789S", 1},
		       {"1", 1},
		       {"1s", 1},
		       {"-1S", 1},
		       {" 1S", 1},
		       {"1 S", 1}};
	char out[64], tiny[5];

	for (size_t i = 0; i < sizeof timeout / sizeof *timeout; i++) {
		uint64_t ns = 1;
		bool good = grpc_timeout_parse(timeout[i].text, strlen(timeout[i].text), &ns);

		ok(good == (timeout[i].ns != 1) && ns == timeout[i].ns, "timeout '%s'",
		   timeout[i].text);
	}
	grpc_message_encode("a%b\n\xc3\xa9~", out, sizeof out);
	ok(strcmp(out, "a%25b%0A%C3%A9~") == 0, "a sentence is percent-encoded: %s", out);
	grpc_message_encode("ab\ncd", tiny, sizeof tiny);
	ok(strcmp(tiny, "ab") == 0, "and cut between its characters: %s", tiny);
	for (int rc = RC_OK; rc <= RC_RECOVERED; rc++)
		ok((grpc_code_of((enum rc)rc) == GRPC_OK) == (rc == RC_OK) &&
		       grpc_code_of((enum rc)rc) != GRPC_UNKNOWN,
		   "rc %d has a status", rc);
}

static void
test_descriptors(void)
{
	static const char *const there[] = {"gpu_sim.GPUDevice",
					    "gpu_sim.GPUDevice.StreamSend",
					    "gpu_sim.MemcpyRequest.either",
					    "gpu_sim.ReduceOp.SUM",
					    "gpu_sim.AllReduceRingRequest.MemAddrsEntry.key",
					    "grpc.reflection.v1.ServerReflection",
					    "grpc.reflection.v1alpha.ErrorResponse"};
	static const char *const missing[] = {"",
					      "gpu_sim",
					      "gpu_sim.",
					      "gpu_sim.None",
					      "gpu_sim.GPUDevice.None",
					      "gpu_sim.GPUDevice.StreamSend.x",
					      ".",
					      "a.b",
					      "gpu_simx.GPUDevice"};
	struct descriptor d;

	ok(descriptor_of_file("gpu_sim.proto", &d) && d.nbytes > 1000, "our file is there");
	ok(!descriptor_of_file("nothing.proto", &d), "another one is not");
	for (size_t i = 0; i < sizeof there / sizeof *there; i++)
		ok(descriptor_of_symbol(there[i], &d), "%s is declared", there[i]);
	for (size_t i = 0; i < sizeof missing / sizeof *missing; i++)
		ok(!descriptor_of_symbol(missing[i], &d), "'%s' is not", missing[i]);
}

/* ---- calls */

static const unsigned char hello[] = {0, 0, 0, 0, 2, 'h', 'i'};

static void
test_calls(void)
{
	world_begin(GRPC_SERVER_HOLD);
	call(0, &(struct head){0}, hello, sizeof hello, false);
	exchange();
	ok(w.answer[0].http == 200 && w.answer[0].grpc == 0 && w.answer[0].nbytes == sizeof hello &&
	       w.answer[0].closed,
	   "a call is answered with its message, and the status");
	for (size_t i = 1; i <= 90; i++)
		call(i, &(struct head){0}, hello, sizeof hello, false);
	exchange();
	for (size_t i = 1; i <= 90; i++)
		nbegun -= w.answer[i].grpc == 0;
	ok(nbegun == 1 && nmessages == 91, "90 at once are, too");
	call(0, &(struct head){.path = "/s/many"}, hello, sizeof hello, false);
	exchange();
	ok(w.answer[0].grpc == 0 && w.answer[0].nbytes == sizeof hello, "and a stream of messages");
	ok(grpc_session_streams(w.server) == 0 && w.budget.left == GRPC_SERVER_HOLD && ngone == 0,
	   "nothing is left of them");
	world_end();
}

static void
test_refusals(void)
{
	static const unsigned char large[] = {0, 0, 0x40, 0, 1}, squeezed[] = {1, 0, 0, 0, 0},
				   odd[] = {7, 0, 0, 0, 0}, two[10], cut[] = {0, 0, 0, 0, 3, 'x'};
	static char huge[9000];
	const struct {
		const char *what;
		struct head head;
		const void *data;
		size_t nbytes;
		int http, grpc;
	} row[] = {
	    {"GET", {.method = "GET"}, hello, 7, 405, GRPC_UNIMPLEMENTED},
	    {"another type", {.type = "text/plain"}, hello, 7, 415, GRPC_UNKNOWN},
	    {"no type of gRPC", {.type = "application/grpcx"}, hello, 7, 415, GRPC_UNKNOWN},
	    {"JSON", {.type = "application/grpc+json"}, hello, 7, 415, GRPC_UNKNOWN},
	    {"protobuf, said", {.type = "application/grpc+proto"}, hello, 7, 200, GRPC_OK},
	    {"parameters", {.type = "application/grpc; x=y"}, hello, 7, 200, GRPC_OK},
	    {"no te", {.te = ""}, hello, 7, 400, GRPC_INTERNAL},
	    {"no such path", {.path = "/s/none"}, hello, 7, 200, GRPC_UNIMPLEMENTED},
	    {"no service", {.path = "/"}, hello, 7, 200, GRPC_UNIMPLEMENTED},
	    {"gzip", {.name = "grpc-encoding", .value = "gzip"}, hello, 7, 200, GRPC_UNIMPLEMENTED},
	    {"identity", {.name = "grpc-encoding", .value = "identity"}, hello, 7, 200, GRPC_OK},
	    {"a bad timeout",
	     {.name = "grpc-timeout", .value = "1x"},
	     hello,
	     7,
	     200,
	     GRPC_INVALID_ARGUMENT},
	    {"a long header", {.name = "x", .value = huge}, hello, 7, 200, GRPC_RESOURCE_EXHAUSTED},
	    {"4 MiB and 1", {0}, large, 5, 200, GRPC_RESOURCE_EXHAUSTED},
	    {"compressed", {0}, squeezed, 5, 200, GRPC_INTERNAL},
	    {"a bad prefix", {0}, odd, 5, 200, GRPC_INTERNAL},
	    {"two messages", {0}, two, 10, 200, GRPC_UNIMPLEMENTED},
	    {"no message", {0}, two, 0, 200, GRPC_UNIMPLEMENTED},
	    {"a truncated message", {0}, cut, 6, 200, GRPC_INTERNAL},
	    {"a truncated prefix", {0}, cut, 3, 200, GRPC_INTERNAL},
	};

	memset(huge, 'y', sizeof huge - 1);
	world_begin(GRPC_SERVER_HOLD);
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		call(i, &row[i].head, row[i].data, row[i].nbytes, false);
		exchange();
		ok(w.answer[i].http == row[i].http && w.answer[i].grpc == row[i].grpc &&
		       w.answer[i].closed && (row[i].grpc == 0 || w.answer[i].text[0]),
		   "%s: %d, status %d: %s", row[i].what, w.answer[i].http, w.answer[i].grpc,
		   w.answer[i].text);
	}
	/* Refused while the client is still sending: it is told not to. */
	call(0, &(struct head){0}, large, 5, true);
	exchange();
	ok(w.answer[0].grpc == GRPC_RESOURCE_EXHAUSTED && w.answer[0].closed &&
	       w.answer[0].reset == NGHTTP2_NO_ERROR,
	   "what is too large is refused by its prefix");
	ok(w.alive && w.budget.left == GRPC_SERVER_HOLD, "and the connection goes on");
	world_end();
}

static void
test_time(void)
{
	world_begin(GRPC_SERVER_HOLD);
	echo = false;
	call(0, &(struct head){.name = "grpc-timeout", .value = "100m"}, hello, 7, false);
	call(1, &(struct head){0}, hello, 7, false);
	call(2, &(struct head){.path = "/s/many"}, hello, 7, true);
	exchange();
	ok(nmessages == 3 && !w.answer[0].closed, "three calls wait");
	w.now_ns += 100 * NS_PER_MS;
	exchange();
	ok(w.answer[0].grpc == GRPC_DEADLINE_EXCEEDED && ngone == 1 && !w.answer[1].closed,
	   "one ends at its deadline");
	w.now_ns += GRPC_STALL_NS;
	exchange();
	ok(w.answer[2].grpc == GRPC_DEADLINE_EXCEEDED && ngone == 2, "one as its client is silent");
	w.now_ns += GRPC_DEADLINE_NS;
	exchange();
	ok(w.answer[1].grpc == GRPC_DEADLINE_EXCEEDED && ngone == 3 && w.alive,
	   "and one that has named no deadline after a day");
	world_end();
	world_begin(GRPC_SERVER_HOLD);
	w.now_ns += GRPC_HELLO_NS;
	ok(!grpc_session_tick(w.server, w.now_ns, &(uint64_t){0}), "who says nothing is cut off");
	world_end();
}

static void
test_cancel(void)
{
	int32_t id;

	world_begin(GRPC_SERVER_HOLD);
	echo = false;
	id = call(0, &(struct head){0}, hello, 7, false);
	exchange();
	nghttp2_submit_rst_stream(w.client, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
	exchange();
	ok(ngone == 1 && grpc_session_streams(w.server) == 0, "a call that is cancelled has gone");
	call(1, &(struct head){0}, hello, 7, false);
	exchange();
	world_end();
	ok(ngone == 2, "and so has one whose connection ends");
	world_begin(GRPC_SERVER_HOLD);
	echo = false;
	for (size_t i = 0; i < CALLS && w.alive; i++) {
		id = call(i, &(struct head){0}, hello, 7, false);
		exchange();
		nghttp2_submit_rst_stream(w.client, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
		exchange();
	}
	ok(!w.alive && w.goaway == NGHTTP2_ENHANCE_YOUR_CALM && nbegun < 600 && ngone == nbegun,
	   "a client that cancels calls again and again gets ENHANCE_YOUR_CALM: %u", nbegun);
	world_end();
}

/* ---- large messages and memory */

static unsigned char big[5 + GRPC_MESSAGE_MAX];

static void
big_prefix(size_t n)
{
	big[0] = 0;
	for (int i = 0; i < 4; i++)
		big[1 + i] = (unsigned char)(n >> (24 - 8 * i));
}

static void
test_large(void)
{
	world_begin(5u << 20);
	big_prefix(GRPC_MESSAGE_MAX);
	echo = false;
	for (size_t i = 0; i < 4; i++)
		call(i, &(struct head){.path = i ? "/s/one" : "/s/many"}, big, sizeof big, false);
	for (int i = 0; i < 4; i++) {
		exchange();
		if (nmessages == (unsigned)i + 1 && last)
			ok(message_bytes == GRPC_MESSAGE_MAX && w.budget.left < (5u << 20),
			   "large message %d is there, and has its memory", i + 1);
		for (size_t k = 0; k < 4; k++)
			ok(w.answer[k].sent <= 65535 /* the client's first window */ ||
			       w.answer[k].sent == sizeof big,
			   "call %zu has sent %zu", k, w.answer[k].sent);
		/* The one that is done is taken back, which makes room. */
		for (size_t k = 0; k < 4; k++)
			if (w.answer[k].sent == sizeof big && !w.answer[k].closed)
				nghttp2_submit_rst_stream(w.client, NGHTTP2_FLAG_NONE,
							  (int32_t)(2 * k + 1), NGHTTP2_CANCEL);
		exchange();
	}
	ok(nmessages == 4 && w.budget.left == 5u << 20, "one after the other, all four");
	world_end();
	world_begin(GRPC_SERVER_HOLD);
	call(0, &(struct head){0}, big, sizeof big, false);
	exchange();
	ok(w.answer[0].grpc == 0 && w.answer[0].nbytes == sizeof big, "4 MiB there and back");
	call(0, &(struct head){.path = "/s/many"}, big, 70000, true);
	exchange();
	w.now_ns += GRPC_LARGE_NS;
	exchange();
	ok(w.answer[0].grpc == GRPC_DEADLINE_EXCEEDED && w.budget.left == GRPC_SERVER_HOLD,
	   "a large message that does not come ends, and its room with it");
	world_end();
}

/* Messages of all sizes around the window, one after the other on one call: none is kept waiting. */
static void
test_windows(void)
{
	static unsigned char many[64 * 70000];
	size_t n, at;

	world_begin(GRPC_SERVER_HOLD);
	echo = false;
	for (size_t size = 1000; size <= 69000; size += 4000) {
		for (n = at = 0; n < 40; n++) {
			size_t len = n % 2 ? size : size / 3;

			big_prefix(len);
			memcpy(many + at, big, 5);
			at += 5 + len;
		}
		nmessages = nended = 0;
		call(0, &(struct head){.path = "/s/many"}, many, at, false);
		exchange();
		if (nmessages != 40 || nended != 1)
			break;
		grpc_stream_finish(last, GRPC_OK, NULL);
		exchange();
	}
	ok(nmessages == 40 && nended == 1, "messages of all sizes come, 40 on each call");
	world_end();
}

/* A client that asks ever more and takes no answer is told no more than a window of them. */
static void
test_greedy(void)
{
	static unsigned char many[2000 * 650];
	const uint8_t *out;
	ssize_t n;

	world_begin(GRPC_SERVER_HOLD);
	call(0, &(struct head){0}, hello, sizeof hello, false);
	exchange();
	big_prefix(645);
	for (size_t at = 0; at < sizeof many; at += 650)
		memcpy(many + at, big, 5);
	nmessages = 0;
	for (size_t k = 0; k < 3; k++)
		call(k, &(struct head){.path = "/s/many"}, many, sizeof many, false);
	while ((n = nghttp2_session_mem_send(w.client, &out)) > 0)
		grpc_session_recv(w.server, out, (size_t)n, w.now_ns);
	for (int i = 0; i < 100; i++) {
		/* It hears what the server has to say, but for answers. */
		const void *in;
		size_t m = grpc_session_send(w.server, &in, w.now_ns);

		if (m == 0 || ((const unsigned char *)in)[3] == NGHTTP2_DATA)
			break;
		nghttp2_session_mem_recv(w.client, in, m);
		while ((n = nghttp2_session_mem_send(w.client, &out)) > 0)
			grpc_session_recv(w.server, out, (size_t)n, w.now_ns);
	}
	ok(nmessages >= 3 * 90 && nmessages <= 3 * 102, "no more than fit are answered: %u",
	   nmessages);
	world_end();
	world_begin(GRPC_SERVER_HOLD);
	for (size_t k = 0; k < 3; k++)
		call(k, &(struct head){.path = "/s/many"}, many, sizeof many, false);
	exchange();
	ok(nmessages == 3 * 2000 && w.answer[2].grpc == 0 && w.answer[2].nbytes == sizeof many,
	   "all are when they are taken");
	world_end();
}

static void
test_hold(void)
{
	static unsigned char none[60000]; /* 12000 empty messages */
	uint64_t due = UINT64_MAX;

	world_begin(GRPC_SERVER_HOLD);
	hold = true;
	echo = false;
	call(0, &(struct head){.path = "/s/many"}, none, sizeof none, false);
	exchange();
	ok(nmessages == 1 && nended == 0, "a call that is held is told no more");
	hold = false;
	grpc_stream_resume(last);
	exchange();
	ok(nmessages == 12000 && nended == 1, "but all when it is resumed");
	ok(grpc_stream_reserve(last, GRPC_MESSAGE_MAX), "memory is taken for it");
	ok(w.budget.left == GRPC_SERVER_HOLD - GRPC_MESSAGE_MAX, "and counted");
	w.budget.left = 0;
	ok(!grpc_stream_reserve(last, 1), "when there is none it waits");
	grpc_session_tick(w.server, w.now_ns, &due);
	ok(nwoken == 0, "until there is");
	w.budget.left = GRPC_SERVER_HOLD - GRPC_MESSAGE_MAX;
	grpc_session_tick(w.server, w.now_ns, &due);
	ok(nwoken == 1, "and hears of it");
	grpc_stream_finish(last, GRPC_OK, NULL);
	exchange();
	ok(w.budget.left == GRPC_SERVER_HOLD, "all of it comes back");
	world_end();
}

/* ---- hostile bytes */

static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";

/* Feed a frame ever again; how often until the session has had enough. */
static unsigned
flood(const void *frame, size_t n)
{
	uint64_t due = UINT64_MAX;
	const void *out;
	unsigned i;

	world_begin(GRPC_SERVER_HOLD);
	w.alive = grpc_session_recv(w.server, preface, sizeof preface - 1, w.now_ns);
	for (i = 0; w.alive && i < 100000; i++) {
		w.alive = grpc_session_recv(w.server, frame, n, w.now_ns);
		while (i % 100 == 0 && grpc_session_send(w.server, &out, w.now_ns) > 0)
			continue;
		w.alive &= grpc_session_tick(w.server, w.now_ns, &due);
	}
	while (grpc_session_send(w.server, &out, w.now_ns) > 0)
		continue;
	world_end();
	return i;
}

static void
test_hostile(void)
{
	static const struct {
		const char *name;
		size_t n;
		unsigned char frame[24];
	} row[] = {
	    {"PING", 17, {0, 0, 8, 6, 0, 0, 0, 0, 0}},
	    {"SETTINGS", 9, {0, 0, 0, 4, 0, 0, 0, 0, 0}},
	    {"empty DATA of no stream", 9, {0, 0, 0, 0, 0, 0, 0, 0, 1}},
	    {"PRIORITY", 14, {0, 0, 5, 2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}},
	    {"RST_STREAM of nothing", 13, {0, 0, 4, 3, 0, 0, 0, 0, 1, 0, 0, 0, 8}},
	    {"CONTINUATION without end", 9, {0, 0, 0, 9, 0, 0, 0, 0, 1}},
	};
	static const char *const garbage[] = {"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
					      "\x16\x03\x01\x02", "PRI * HTTP/2.0\r\n\r\nXX"};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		unsigned n = flood(row[i].frame, row[i].n);

		ok(n <= 20000, "a flood of %s is cut off after %u", row[i].name, n);
	}
	for (size_t i = 0; i < sizeof garbage / sizeof *garbage; i++) {
		world_begin(GRPC_SERVER_HOLD);
		ok(!grpc_session_recv(w.server, garbage[i], strlen(garbage[i]), w.now_ns),
		   "garbage %zu is no HTTP/2", i);
		world_end();
	}
}

int
main(void)
{
	test_texts();
	test_descriptors();
	test_calls();
	test_refusals();
	test_time();
	test_cancel();
	test_large();
	test_windows();
	test_greedy();
	test_hold();
	test_hostile();
	return tap_done();
}
