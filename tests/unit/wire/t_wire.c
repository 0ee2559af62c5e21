/* Control messages: what is packed comes back, and nothing hostile gets in or costs much. */
#include <stdlib.h>
#include <string.h>

#include "tap.h"
#include "wire/wire.h"

/* A limit on memory is not a limit on what a sanitizer keeps beside it. */
#define PEAK_MAX (SANITIZED ? 8ull * WIRE_UNPACK_MAX : WIRE_UNPACK_MAX + (4ull << 20))

static const GpuSim__Request blank = {PROTOBUF_C_MESSAGE_INIT(&gpu_sim__request__descriptor),
				      .clientid = 7, .seq = 9, .timeoutms = 1500,
				      .version = WIRE_VERSION};

/* Pack any message into *out, which it replaces. */
static void
pack(const void *message, struct buf *out)
{
	out->len = 0;
	if (buf_reserve(out, protobuf_c_message_get_packed_size(message)))
		out->len = protobuf_c_message_pack(message, (uint8_t *)out->data);
}

/* What unpacking the packed request comes to; *err has the sentence. */
static enum rc
try_request(const GpuSim__Request *req, struct err *err)
{
	struct buf b = {0};
	GpuSim__Request *got = NULL;
	enum rc rc;

	*err = (struct err){0};
	pack(req, &b);
	rc = wire_request_unpack(b.data, b.len, &got, err);
	wire_request_free(got);
	buf_fini(&b);
	return rc;
}

/* Whether the request is refused as bad data with this in the sentence. */
static bool
refused(const GpuSim__Request *req, const char *why)
{
	struct err err;
	enum rc rc = try_request(req, &err);
	bool good = rc == RC_BADDATA && err.rc == RC_BADDATA && strstr(err.text, why);

	if (!good)
		printf("# gave %s: '%s'\n", rc_name(rc), err.text);
	return good;
}

/* A run of one kernel launch with two arguments: every depth of a message. */
struct run {
	GpuSim__Request req;
	GpuSim__RunRequest body;
	GpuSim__Op op, *ops[1];
	GpuSim__Launch launch;
	GpuSim__KernelArg arg[2], *args[2];
	char kernel[8], name[8];
};

static void
run_make(struct run *r)
{
	*r = (struct run){.req = blank,
			  .body = GPU_SIM__RUN_REQUEST__INIT,
			  .op = GPU_SIM__OP__INIT,
			  .launch = GPU_SIM__LAUNCH__INIT,
			  .arg = {GPU_SIM__KERNEL_ARG__INIT, GPU_SIM__KERNEL_ARG__INIT},
			  .kernel = "sgd",
			  .name = "lr"};
	r->req.body_case = GPU_SIM__REQUEST__BODY_RUN;
	r->req.run = &r->body;
	r->body.commid = UINT64_MAX;
	r->body.epoch = 3;
	r->body.n_ops = 1;
	r->body.ops = r->ops;
	r->ops[0] = &r->op;
	r->op.stream = 63;
	r->op.kind_case = GPU_SIM__OP__KIND_LAUNCH;
	r->op.launch = &r->launch;
	r->launch.kernel = r->kernel;
	r->launch.n_args = 2;
	r->launch.args = r->args;
	r->args[0] = &r->arg[0];
	r->args[1] = &r->arg[1];
	r->arg[0].name = r->name;
	r->arg[0].value_case = GPU_SIM__KERNEL_ARG__VALUE_F;
	r->arg[0].f = -0.25;
	r->arg[1].value_case = GPU_SIM__KERNEL_ARG__VALUE_U;
	r->arg[1].u = 1ull << 63;
}

static void
test_request(void)
{
	struct run r;
	struct buf b = {0};
	GpuSim__Request *q = NULL;
	struct err err = {0};
	const GpuSim__Launch *l;

	run_make(&r);
	pack(&r.req, &b);
	ok(wire_request_unpack(b.data, b.len, &q, &err) == RC_OK, "a request is unpacked %s",
	   err.text);
	ok(q && q->clientid == 7 && q->seq == 9 && q->timeoutms == 1500 &&
	       q->body_case == GPU_SIM__REQUEST__BODY_RUN && q->run->commid == UINT64_MAX &&
	       q->run->epoch == 3 && q->run->n_ops == 1 && q->run->ops[0]->stream == 63,
	   "its fields come back");
	l = q ? q->run->ops[0]->launch : NULL;
	ok(l && strcmp(l->kernel, "sgd") == 0 && l->n_args == 2 &&
	       strcmp(l->args[0]->name, "lr") == 0 && l->args[0]->f == -0.25 &&
	       l->args[1]->u == 1ull << 63 && *l->args[1]->name == '\0',
	   "and the arguments of its kernel");
	ok(q && strcmp(wire_request_name(q), "run") == 0 &&
	       strcmp(wire_request_name(&blank), "nothing") == 0,
	   "it has a name");
	wire_request_free(q);
	wire_request_free(NULL);
	wire_reply_free(NULL);
	buf_fini(&b);
}

/* Every prefix, and every byte changed in a few ways: taken or refused, never worse. */
static void
test_damage(void)
{
	static const unsigned char flips[] = {0x01, 0x08, 0x80, 0xff};
	struct run r;
	struct buf b = {0};
	unsigned wrong = 0, cut = 0;

	run_make(&r);
	pack(&r.req, &b);
	for (size_t n = 0; n < b.len; n++) {
		GpuSim__Request *q = NULL;
		char *p = malloc(n ? n : 1); /* of exact size: reading past it is seen */

		memcpy(p, b.data, n);
		cut += wire_request_unpack(p, n, &q, NULL) == RC_BADDATA && !q;
		wire_request_free(q);
		free(p);
	}
	ok(cut == b.len, "each proper prefix of the request is refused");
	for (size_t i = 0; i < b.len * sizeof flips; i++) {
		GpuSim__Request *q = NULL;
		enum rc rc;

		b.data[i / sizeof flips] ^= (char)flips[i % sizeof flips];
		rc = wire_request_unpack(b.data, b.len, &q, NULL);
		wrong += rc == RC_OK ? !q || q->clientid == 0 : rc != RC_BADDATA || q;
		wire_request_free(q);
		b.data[i / sizeof flips] ^= (char)flips[i % sizeof flips];
	}
	ok(wrong == 0, "a changed byte makes another request or bad data");
	buf_fini(&b);
}

static void
test_envelope(void)
{
	struct run r;
	struct err err = {0};
	GpuSim__Request *q = NULL;
	/* clientId 7, seq 9, version 1, and field 100, which is of no known kind, of 0 bytes. */
	static const unsigned char unknown[] = {8, 7, 16, 9, 32, WIRE_VERSION, 0xa2, 6, 0};

	run_make(&r);
	r.req.version = WIRE_VERSION + 1;
	ok(refused(&r.req, "protocol version 2, expected 1"), "a later version");
	r.req.version = 0;
	ok(refused(&r.req, "version 0,"), "no version");
	r.req.version = WIRE_VERSION;
	r.req.clientid = 0;
	ok(refused(&r.req, "without a client id"), "no client id");
	r.req.clientid = 7;
	r.req.seq = 0;
	ok(refused(&r.req, "sequence number"), "no sequence number");
	ok(refused(&blank, "unknown kind"), "no body");
	ok(wire_request_unpack(unknown, sizeof unknown, &q, &err) == RC_BADDATA && !q &&
	       strstr(err.text, "unknown kind"),
	   "a body of an unknown kind");
	ok(wire_request_unpack("rubbish", 7, &q, &err) == RC_BADDATA && !q &&
	       wire_request_unpack(NULL, 0, &q, &err) == RC_BADDATA && !q,
	   "rubbish, and nothing at all");
}

static void
test_strings(void)
{
	static const char *const bad[] = {"a\nb", "\x1b[2J", "\t", "\x7f", "\x01", "end\r"};
	char name[WIRE_NAME_MAX + 1], utf8[] = "caf\xc3\xa9 x~";
	struct run r;
	struct err err;
	size_t i;

	run_make(&r);
	for (i = 0; i < sizeof bad / sizeof *bad; i++) {
		snprintf(r.name, sizeof r.name, "%s", bad[i]);
		if (!refused(&r.req, "name: holds a control character"))
			break;
	}
	ok(i == sizeof bad / sizeof *bad, "a control character, at the deepest place a string has");
	r.arg[0].name = utf8;
	ok(try_request(&r.req, &err) == RC_OK, "what can be shown in a line is taken");
	memset(name, 'k', sizeof name);
	name[WIRE_NAME_MAX - 1] = '\0';
	r.launch.kernel = name;
	ok(try_request(&r.req, &err) == RC_OK, "a name of %d bytes", WIRE_NAME_MAX - 1);
	name[WIRE_NAME_MAX - 1] = 'k';
	name[WIRE_NAME_MAX] = '\0';
	ok(refused(&r.req, "kernel: longer than 255 bytes"), "a name of one byte more");
}

static void
test_sentences(void)
{
	char text[sizeof(struct err){0}.text + 1];
	GpuSim__CommAbortRequest body = GPU_SIM__COMM_ABORT_REQUEST__INIT;
	GpuSim__Request req = blank;
	struct err err;

	req.body_case = GPU_SIM__REQUEST__BODY_COMM_ABORT;
	req.commabort = &body;
	body.reason = text;
	memset(text, 'r', sizeof text);
	text[sizeof err.text - 1] = '\0';
	ok(try_request(&req, &err) == RC_OK, "a reason as long as a struct err holds");
	text[sizeof err.text - 1] = 'r';
	text[sizeof err.text] = '\0';
	ok(refused(&req, "reason: longer than"), "a reason of one byte more");
}

static void
test_counts(void)
{
	static GpuSim__Op op = GPU_SIM__OP__INIT, *ops[WIRE_MAX_OPS + 1];
	static GpuSim__RankOps rank = GPU_SIM__RANK_OPS__INIT, *ranks[WIRE_MAX_RANKS + 1];
	static GpuSim__KernelArg *args[WIRE_MAX_ARGS + 1];
	static uint64_t ids[WIRE_MAX_RANKS + 1];
	GpuSim__SubmitRequest submit = GPU_SIM__SUBMIT_REQUEST__INIT;
	GpuSim__CommInitRequest init = GPU_SIM__COMM_INIT_REQUEST__INIT;
	GpuSim__Request req = blank;
	struct run r;
	struct err err;

	for (size_t i = 0; i <= WIRE_MAX_OPS; i++)
		ops[i] = &op;
	for (size_t i = 0; i <= WIRE_MAX_RANKS; i++)
		ranks[i] = &rank;
	run_make(&r);
	for (size_t i = 0; i <= WIRE_MAX_ARGS; i++)
		args[i] = &r.arg[0];
	r.launch.args = args;
	r.launch.n_args = WIRE_MAX_ARGS;
	ok(try_request(&r.req, &err) == RC_OK, "%d arguments", WIRE_MAX_ARGS);
	r.launch.n_args++;
	ok(refused(&r.req, "args: 33 entries: the limit is 32"), "an argument more");
	r.body.ops = ops;
	r.body.n_ops = WIRE_MAX_OPS;
	ok(try_request(&r.req, &err) == RC_OK, "%d operations", WIRE_MAX_OPS);
	r.body.n_ops++;
	ok(refused(&r.req, "ops: 4097 entries: the limit is 4096"), "an operation more");

	req.body_case = GPU_SIM__REQUEST__BODY_SUBMIT;
	req.submit = &submit;
	submit.ranks = ranks;
	submit.n_ranks = WIRE_MAX_RANKS;
	ok(try_request(&req, &err) == RC_OK, "%d ranks", WIRE_MAX_RANKS);
	submit.n_ranks++;
	ok(refused(&req, "ranks: 1025 entries: the limit is 1024"), "a rank more");
	submit.n_ranks = 1;
	rank.ops = ops;
	rank.n_ops = WIRE_MAX_OPS + 1;
	ok(refused(&req, "ops: 4097 entries"), "an operation more, of one rank");

	req.body_case = GPU_SIM__REQUEST__BODY_COMM_INIT;
	req.comminit = &init;
	init.deviceids = ids;
	init.n_deviceids = WIRE_MAX_RANKS + 1;
	ok(refused(&req, "deviceIds: 1025 entries"), "a device id more (packed numbers)");
}

static void
test_schedule(void)
{
	static uint8_t bytes[WIRE_SCHEDULE_MAX + 1];
	GpuSim__Coll coll = GPU_SIM__COLL__INIT;
	struct run r;
	struct err err;

	run_make(&r);
	r.op.kind_case = GPU_SIM__OP__KIND_COLL;
	r.op.coll = &coll;
	coll.schedule = (ProtobufCBinaryData){WIRE_SCHEDULE_MAX, bytes};
	ok(try_request(&r.req, &err) == RC_OK, "a schedule of %u bytes", WIRE_SCHEDULE_MAX);
	coll.schedule.len++;
	ok(refused(&r.req, "schedule: 262145 bytes: the limit is 262144"), "a byte more");
}

static void
add_varint(struct buf *b, uint64_t v)
{
	unsigned char c;

	do {
		c = (unsigned char)((v & 0x7f) | (v > 0x7f ? 0x80 : 0));
		buf_add(b, &c, 1);
	} while (v >>= 7);
}

/* Append the beginning of a field of n bytes, which follow. */
static void
add_length(struct buf *b, unsigned field, size_t n)
{
	add_varint(b, field << 3 | 2);
	add_varint(b, n);
}

/* The request's envelope, and a body of this kind that is `inner`. */
static void
envelope(struct buf *b, unsigned kind, const struct buf *inner)
{
	static const unsigned char head[] = {8, 7, 16, 9, 32, WIRE_VERSION};

	b->len = 0;
	buf_add(b, head, sizeof head);
	add_length(b, kind, inner->len);
	buf_add(b, inner->data, inner->len);
}

/* n empty messages in a repeated field of number below 16, each 2 bytes on the wire. */
static void
add_empties(struct buf *b, unsigned field, size_t n)
{
	const unsigned char two[] = {(unsigned char)(field << 3 | 2), 0};

	while (n-- > 0)
		buf_add(b, two, 2);
}

/* The most memory this process ever had, in bytes; 0 where the system does not say. */
static unsigned long long
peak_bytes(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[256];
	unsigned long long kib = 0;

	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "VmHWM: %llu", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return kib << 10;
}

static void *
count_alloc(void *arg, size_t nbytes)
{
	*(size_t *)arg += nbytes;
	return malloc(nbytes);
}

static void
count_free(void *arg, void *p)
{
	(void)arg;
	free(p);
}

/* The bytes protobuf-c alone allocates for the request. */
static size_t
inflated(const struct buf *b)
{
	size_t sum = 0;
	ProtobufCAllocator a = {count_alloc, count_free, &sum};
	GpuSim__Request *q = gpu_sim__request__unpack(&a, b->len, (const uint8_t *)b->data);

	if (q)
		gpu_sim__request__free_unpacked(q, NULL);
	return q ? sum : 0;
}

enum { FIELD_RUN_OPS = 6, FIELD_SUBMIT_RANKS = 2, FIELD_RANK_OPS = 2, NHOSTILE = 4 };

static void
test_hostile(void)
{
	static const char *const what[NHOSTILE] = {
	    "half a million empty RankOps", "half a million empty Ops",
	    "half a million unknown fields", "as many Ops as the counts allow"};
	struct buf message[NHOSTILE] = {0}, inner = {0}, rank = {0};
	const unsigned char unknown[] = {15 << 3, 1};

	add_empties(&inner, FIELD_SUBMIT_RANKS, 500000);
	envelope(&message[0], GPU_SIM__REQUEST__BODY_SUBMIT, &inner);
	inner.len = 0;
	add_empties(&inner, FIELD_RUN_OPS, 500000);
	envelope(&message[1], GPU_SIM__REQUEST__BODY_RUN, &inner);
	inner.len = 0;
	for (int i = 0; i < 500000; i++)
		buf_add(&inner, unknown, 2);
	envelope(&message[2], GPU_SIM__REQUEST__BODY_RUN, &inner);
	inner.len = 0;
	add_empties(&rank, FIELD_RANK_OPS, WIRE_MAX_OPS);
	for (int i = 0; i < 120; i++) {
		add_length(&inner, FIELD_SUBMIT_RANKS, rank.len);
		buf_add(&inner, rank.data, rank.len);
	}
	envelope(&message[3], GPU_SIM__REQUEST__BODY_SUBMIT, &inner);

	/* All of them through the check first: a peak of memory is never taken back. */
	for (int i = 0; i < NHOSTILE; i++) {
		unsigned long long before = peak_bytes(), rise;
		GpuSim__Request *q = NULL;
		enum rc rc = wire_request_unpack(message[i].data, message[i].len, &q, NULL);

		rise = peak_bytes() - before;
		if (!ok(rc == RC_BADDATA && !q && rise <= PEAK_MAX,
			"%s: bad data, in bounded memory", what[i]))
			printf("#   %s, %llu bytes\n", rc_name(rc), rise);
		wire_request_free(q);
	}
	for (int i = 0; i < NHOSTILE; i++) {
		size_t n = inflated(&message[i]);

		if (!ok(message[i].len <= WIRE_CONTROL_MAX && n > WIRE_UNPACK_MAX,
			"%s: a message that fits and unbounded would take too much", what[i]))
			printf("#   %zu bytes on the wire, %zu in memory\n", message[i].len, n);
		buf_fini(&message[i]);
	}
	buf_fini(&inner);
	buf_fini(&rank);
}

/* No message of ours holds itself, so nesting is bytes of an unknown field, or a wrong field. */
static void
test_nesting(void)
{
	struct buf deep = {0}, next = {0}, b = {0};
	GpuSim__Request *q = NULL;
	enum rc rc;

	for (int i = 0; i < 200; i++) {
		next.len = 0;
		add_length(&next, FIELD_SUBMIT_RANKS, deep.len);
		buf_add(&next, deep.data, deep.len);
		deep.len = 0;
		buf_add(&deep, next.data, next.len);
	}
	envelope(&b, GPU_SIM__REQUEST__BODY_SUBMIT, &deep);
	rc = wire_request_unpack(b.data, b.len, &q, NULL);
	ok(rc == RC_BADDATA || (rc == RC_OK && q), "200 messages one in another do no harm");
	wire_request_free(q);
	buf_fini(&deep);
	buf_fini(&next);
	buf_fini(&b);
}

/* Groups are of no message of ours; a length may reach beyond what holds it. */
static void
test_groups_and_lengths(void)
{
	static const unsigned char start = 15 << 3 | 3;
	struct buf inner = {0}, b = {0};
	GpuSim__Request *q = NULL;
	unsigned taken = 0;

	for (int i = 0; i < 500000; i++)
		buf_add(&inner, &start, 1);
	envelope(&b, GPU_SIM__REQUEST__BODY_SUBMIT, &inner);
	ok(wire_request_unpack(b.data, b.len, &q, NULL) == RC_BADDATA && !q &&
	       wire_request_unpack(inner.data, inner.len, &q, NULL) == RC_BADDATA && !q,
	   "half a million groups in each other");
	for (unsigned bit = 0; bit < 64; bit++) {
		inner.len = 0;
		add_length(&inner, FIELD_SUBMIT_RANKS, (size_t)1 << bit);
		envelope(&b, GPU_SIM__REQUEST__BODY_SUBMIT, &inner);
		taken += wire_request_unpack(b.data, b.len, &q, NULL) != RC_BADDATA || q;
	}
	ok(taken == 0, "a message longer than what holds it, of each power of 2");
	buf_fini(&inner);
	buf_fini(&b);
}

static void
test_oversize(void)
{
	char *data = malloc(WIRE_BULK_MAX), *big = calloc(1, WIRE_CONTROL_MAX + 1);
	GpuSim__WriteRequest body = GPU_SIM__WRITE_REQUEST__INIT;
	GpuSim__Request req = blank, *q = NULL;
	GpuSim__Reply *reply = NULL;
	struct buf b = {0};
	struct err err = {0};

	memset(data, 0xa5, WIRE_BULK_MAX);
	req.body_case = GPU_SIM__REQUEST__BODY_WRITE;
	req.write = &body;
	body.data = (ProtobufCBinaryData){WIRE_BULK_MAX, (uint8_t *)data};
	pack(&req, &b);
	ok(wire_request_unpack(b.data, b.len, &q, &err) == RC_OK &&
	       q->write->data.len == WIRE_BULK_MAX &&
	       memcmp(q->write->data.data, data, WIRE_BULK_MAX) == 0,
	   "%u bytes of memory in one request", WIRE_BULK_MAX);
	wire_request_free(q);
	q = NULL;
	ok(wire_request_unpack(big, WIRE_CONTROL_MAX + 1, &q, &err) == RC_BADDATA && !q &&
	       strcmp(err.text, "message of 1048577 bytes: the limit is 1048576") == 0,
	   "a request above the limit");
	ok(wire_reply_unpack(big, WIRE_CONTROL_MAX + 1, &reply, &err) == RC_BADDATA && !reply,
	   "a reply above the limit");
	buf_fini(&b);
	free(data);
	free(big);
}

/* Pack and unpack the reply; NULL when it is refused. */
static GpuSim__Reply *
through(const GpuSim__Reply *reply)
{
	struct buf b = {0};
	GpuSim__Reply *got = NULL;

	pack(reply, &b);
	if (wire_reply_unpack(b.data, b.len, &got, NULL) != RC_OK)
		got = NULL;
	buf_fini(&b);
	return got;
}

static void
test_reply(void)
{
	GpuSim__MallocResponse body = GPU_SIM__MALLOC_RESPONSE__INIT;
	GpuSim__Reply reply = GPU_SIM__REPLY__INIT, *got;
	struct err err = {.rc = RC_BUSY, .text = "as it was"};
	char escape[] = "\x1b]0;";

	body.addr = 0x10000;
	reply.seq = 9;
	reply.body_case = GPU_SIM__REPLY__BODY_MALLOC;
	reply.malloc = &body;
	got = through(&reply);
	ok(got && got->seq == 9 && got->body_case == GPU_SIM__REPLY__BODY_MALLOC &&
	       got->malloc->addr == 0x10000,
	   "a reply comes back");
	ok(got && wire_reply_rc(got, &err) == RC_OK && strcmp(err.text, "as it was") == 0,
	   "one of success leaves the err alone");
	wire_reply_free(got);
	reply.message = escape;
	ok(through(&reply) == NULL, "a message with a control character is refused");
}

static void
test_failure(void)
{
	GpuSim__Reply reply = GPU_SIM__REPLY__INIT, *got;
	struct err err = {0}, back;
	unsigned bad = 0;

	for (int rc = RC_FAILED; rc <= RC_ABORTED; rc++) {
		back = (struct err){0};
		err_set(&err, (enum rc)rc, "device %d: no", rc);
		reply.body_case = GPU_SIM__REPLY__BODY_MALLOC;
		wire_reply_failure(&reply, &err);
		got = through(&reply);
		bad += !got || got->body_case != GPU_SIM__REPLY__BODY__NOT_SET ||
		       wire_reply_rc(got, &back) != (enum rc)rc || back.rc != (enum rc)rc ||
		       strcmp(back.text, err.text) != 0 || wire_reply_rc(got, NULL) != (enum rc)rc;
		wire_reply_free(got);
	}
	ok(bad == 0, "each failure comes back with its sentence, and no body");
	err = (struct err){0};
	wire_reply_failure(&reply, &err);
	ok(reply.code == RC_INTERNAL, "a failure that says ok is an internal error");
	reply.message = NULL;
	ok(wire_reply_rc(&reply, &back) == RC_INTERNAL && strcmp(back.text, "no reason given") == 0,
	   "a failure without a sentence gets one");
	reply.code = RC_RECOVERED + 1;
	bad = wire_reply_rc(&reply, &back) != RC_INTERNAL || back.rc != RC_INTERNAL;
	reply.code = UINT32_MAX;
	bad += wire_reply_rc(&reply, &back) != RC_INTERNAL;
	ok(bad == 0, "a code nobody knows is an internal error");
}

int
main(void)
{
	test_hostile();
	test_request();
	test_damage();
	test_envelope();
	test_strings();
	test_sentences();
	test_counts();
	test_schedule();
	test_nesting();
	test_groups_and_lengths();
	test_oversize();
	test_reply();
	test_failure();
	return tap_done();
}
