/* Requests that are damaged below the level of messages. */
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "corpus.h"
#include "gpu_sim.pb-c.h"
#include "wire/frame.h"
#include "wire/wire.h"

#define COUNT(v) (sizeof(v) / sizeof *(v))

static const unsigned char greeting[8] = {0, 'S', 'P', 0, 0, 0x30, 0, 0};

/* ---- SP: greetings and heads of messages */

static void
throw_greetings(const struct corpus *c)
{
	unsigned char g[8];
	char name[64];

	c->group(c->arg, "greetings");
	for (size_t n = 0; n < 8; n++) {
		snprintf(name, sizeof name, "greeting: %zu bytes", n);
		c->input(c->arg, INPUT_RAW, name, greeting, n);
		snprintf(name, sizeof name, "greeting: %zu bytes, then silence", n);
		c->input(c->arg, INPUT_OPEN, name, greeting, n);
	}
	for (size_t i = 0; i < 8; i++) {
		memcpy(g, greeting, 8);
		g[i] ^= 0xff;
		snprintf(name, sizeof name, "greeting: byte %zu wrong", i);
		c->input(c->arg, INPUT_RAW, name, g, 8);
	}
	for (unsigned proto = 0; proto < 0x80; proto += 0x10) {
		memcpy(g, greeting, 8);
		g[5] = (unsigned char)(proto | (proto == 0x30));
		snprintf(name, sizeof name, "greeting: protocol %#x", g[5]);
		c->input(c->arg, INPUT_RAW, name, g, 8);
	}
	c->input(c->arg, INPUT_SLOW, "greeting: byte by byte", greeting, 8);
	c->input(c->arg, INPUT_RAW, "greeting: of another protocol", "GET / HTTP/1.1\r\n\r\n", 18);
	c->input(c->arg, INPUT_RAW, "greeting: of TLS",
		 "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11);
}

/* greeting, head that claims `claim`, `n` bytes */
static void
throw_message(const struct corpus *c, enum input_kind kind, const char *name, uint64_t claim,
	      const void *data, size_t n)
{
	unsigned char *b = calloc(1, 32 + n);
	size_t at = 8;

	memcpy(b, greeting, 8);
	if (c->target->ipc)
		b[at++] = 1;
	claim = htobe64(claim);
	memcpy(b + at, &claim, 8);
	memcpy(b + at + 8, data, n);
	c->input(c->arg, kind, name, b, at + 8 + n);
	free(b);
}

static void
throw_lengths(const struct corpus *c)
{
	static const uint64_t claim[] = {0,
					 1,
					 3,
					 4,
					 WIRE_CONTROL_MAX - 1,
					 WIRE_CONTROL_MAX,
					 WIRE_CONTROL_MAX + 1,
					 INT32_MAX,
					 UINT32_MAX,
					 1ull << 32,
					 1ull << 40,
					 1ull << 62,
					 1ull << 63,
					 UINT64_MAX - 40,
					 UINT64_MAX - 8,
					 UINT64_MAX};
	static const size_t hops[] = {1, 7, 8, 9, 100, 10000};
	unsigned char stack[4 * 10001] = {0};
	char name[64];

	c->group(c->arg, "lengths that lie");
	for (size_t i = 0; i < COUNT(claim); i++) {
		snprintf(name, sizeof name, "length %#llx, 4 bytes come",
			 (unsigned long long)claim[i]);
		throw_message(c, INPUT_RAW, name, claim[i], "\x80\0\0\1", 4);
		snprintf(name, sizeof name, "length %#llx, then silence",
			 (unsigned long long)claim[i]);
		throw_message(c, INPUT_OPEN, name, claim[i], "\x80\0", 2);
	}
	for (size_t i = 0; i < COUNT(hops); i++) {
		size_t n = 4 * (hops[i] + 1);

		snprintf(name, sizeof name, "a stack of %zu hops", hops[i]);
		stack[n - 4] = 0x80;
		throw_message(c, INPUT_RAW, name, n, stack, n);
		stack[n - 4] = 0;
		snprintf(name, sizeof name, "a stack of %zu hops without an end", hops[i]);
		throw_message(c, INPUT_RAW, name, n, stack, n);
	}
	if (c->target->ipc) {
		unsigned char b[32] = {0};

		memcpy(b, greeting, 8);
		for (unsigned type = 0; type < 256; type += 51) {
			b[8] = (unsigned char)(type ? type : 2);
			snprintf(name, sizeof name, "a message of type %u", b[8]);
			c->input(c->arg, INPUT_RAW, name, b, 8 + 9 + 4);
		}
	}
}

/* ---- protobuf */

/* A valid request with operations in it. */
static size_t
good_request(const struct corpus *c, unsigned char *out)
{
	GpuSim__Request req = GPU_SIM__REQUEST__INIT;
	GpuSim__RunRequest run = GPU_SIM__RUN_REQUEST__INIT;
	GpuSim__Op op = GPU_SIM__OP__INIT, *ops = &op;
	GpuSim__Launch launch = GPU_SIM__LAUNCH__INIT;
	GpuSim__KernelArg arg = GPU_SIM__KERNEL_ARG__INIT, *args = &arg;

	arg.name = (char *)"x";
	arg.value_case = GPU_SIM__KERNEL_ARG__VALUE_U;
	arg.u = 4096;
	launch.kernel = (char *)"fill";
	launch.n_args = 1;
	launch.args = &args;
	op.kind_case = GPU_SIM__OP__KIND_LAUNCH;
	op.launch = &launch;
	run.commid = c->target->comm;
	run.epoch = c->target->epoch;
	run.iterations = 1;
	run.n_ops = 1;
	run.ops = &ops;
	req.body_case = GPU_SIM__REQUEST__BODY_RUN;
	req.run = &run;
	return gpu_sim__request__pack(&req, out);
}

static void
throw_damaged(const struct corpus *c)
{
	unsigned char good[256], b[256];
	size_t n = good_request(c, good);
	char name[64];

	c->group(c->arg, "truncated and damaged requests");
	for (size_t k = 0; k < n; k++) {
		snprintf(name, sizeof name, "run: %zu of %zu bytes", k, n);
		c->input(c->arg, INPUT_REQUEST, name, good, k);
	}
	for (size_t k = 0; k < n; k++)
		for (unsigned bit = 0; bit < 8; bit += 7) {
			memcpy(b, good, n);
			b[k] ^= (unsigned char)(1u << bit);
			snprintf(name, sizeof name, "run: bit %u of byte %zu", bit, k);
			c->input(c->arg, INPUT_REQUEST, name, b, n);
		}
}

#define HEX(name, text)                     \
	{                                   \
		name, text, sizeof text - 1 \
	}

static const struct {
	const char *name, *data;
	size_t n;
} encodings[] = {
    HEX("a varint of 11 bytes", "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
    HEX("a varint without an end", "\x08\xff\xff\xff\xff"),
    HEX("a varint longer than it needs", "\x18\x81\x80\x80\x80\x80\x80\x80\x80\x00"),
    HEX("field number 0", "\x02\x00"),
    HEX("the largest field number", "\xfa\xff\xff\xff\x0f\x00"),
    HEX("a tag of 10 bytes", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
    HEX("a group begins", "\x0b"),
    HEX("a group ends", "\x0c"),
    HEX("wire type 6", "\x0e"),
    HEX("wire type 7", "\x0f"),
    HEX("a number as bytes", "\x0a\x01x"),
    HEX("a message as a number", "\x80\x01\x01"),
    HEX("a message as 32 bits", "\x85\x01\0\0\0\0"),
    HEX("a message as 64 bits", "\x81\x01\0\0\0\0\0\0\0\0"),
    HEX("a body longer than the message", "\xf2\x01\x7f\x00"),
    HEX("a body of 2^32 bytes", "\xf2\x01\x80\x80\x80\x80\x10"),
    HEX("a body of 2^63 bytes", "\xf2\x01\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"),
    HEX("a body of 2^64-1 bytes", "\xf2\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
    HEX("operations longer than their request", "\xf2\x01\x04\x32\x7f\x00\x00"),
    HEX("operations of 2^31 bytes", "\xf2\x01\x06\x32\xff\xff\xff\xff\x07"),
    HEX("an operation inside of an operation", "\xf2\x01\x06\x32\x04\x12\x02\x32\x00"),
    HEX("a body that nobody knows", "\xf2\x3f\x00"),
    HEX("two bodies", "\xca\x03\x00\xf2\x01\x00"),
    HEX("a string with a NUL", "\xda\x01\x04\x1a\x02\x00\x78"),
    HEX("a string that is no UTF-8", "\xda\x01\x04\x1a\x02\xff\xfe"),
};

static void
throw_encodings(const struct corpus *c)
{
	unsigned char *b = malloc(WIRE_CONTROL_MAX);
	size_t n;

	c->group(c->arg, "encodings");
	for (size_t i = 0; i < COUNT(encodings); i++)
		c->input(c->arg, INPUT_REQUEST, encodings[i].name, encodings[i].data,
			 encodings[i].n);
	/* Deep: as many nested lengths as fit. */
	for (n = 0; n < 4000; n += 2)
		memcpy(b + n, "\x32\x7f", 2);
	c->input(c->arg, INPUT_REQUEST, "nested 2000 deep", b, n);
	/* Small and many: half a million empty operations. */
	n = 0;
	b[n++] = 0xf2;
	b[n++] = 0x01;
	b[n++] = 0x80;
	b[n++] = 0x80;
	b[n++] = 0x3c; /* 960 KiB */
	for (size_t end = n + (960u << 10); n < end; n += 2)
		memcpy(b + n, "\x32\x00", 2);
	c->input(c->arg, INPUT_REQUEST, "500000 empty operations", b, n);
	memset(b, 0, 960u << 10);
	c->input(c->arg, INPUT_REQUEST, "a megabyte of zeros", b, 960u << 10);
	free(b);
}

/* ---- the envelope; these have their own, after the one that corpus.c adds */

static void
throw_envelopes(const struct corpus *c)
{
	static const struct {
		const char *name;
		uint64_t client, seq;
		uint32_t timeout_ms, version;
	} v[] = {{"no client id", 0, 1, 100, WIRE_VERSION},
		 {"no sequence number", 7, 0, 100, WIRE_VERSION},
		 {"version 0", 7, 1, 100, 0},
		 {"the next version", 7, 2, 100, WIRE_VERSION + 1},
		 {"version 2^32-1", 7, 3, 100, UINT32_MAX},
		 {"the last sequence number", 8, UINT64_MAX, 100, WIRE_VERSION},
		 {"then the first", 8, 1, 100, WIRE_VERSION},
		 {"then the one before the last", 8, UINT64_MAX - 1, 100, WIRE_VERSION},
		 {"replayed: first", 9, 1, 100, WIRE_VERSION},
		 {"replayed: the same number again", 9, 1, 100, WIRE_VERSION},
		 {"no time left", 10, 1, 0, WIRE_VERSION},
		 {"all the time there is", 11, 1, UINT32_MAX, WIRE_VERSION}};
	static const unsigned char status[] = {0xca, 0x03, 0x00}, list[] = {0xc2, 0x03, 0x00},
				   meta[] = {0x82, 0x01, 0x00};
	unsigned char b[128];

	c->group(c->arg, "envelopes and replays");
	for (size_t i = 0; i < COUNT(v); i++) {
		GpuSim__Request env = GPU_SIM__REQUEST__INIT;
		char name[96];
		size_t n;

		env.clientid = v[i].client;
		env.seq = v[i].seq;
		env.timeoutms = v[i].timeout_ms;
		env.version = v[i].version;
		memcpy(b, "\x80\0\1\1", 4);
		n = 4 + gpu_sim__request__pack(&env, b + 4);
		/* The repetition has a different body. */
		memcpy(b + n, i % 3 == 0 ? status : i % 3 == 1 ? list : meta, 3);
		n += 3;
		snprintf(name, sizeof name, "envelope: %s", v[i].name);
		throw_message(c, INPUT_RAW, name, n, b, n);
		snprintf(name, sizeof name, "envelope: %s, byte by byte", v[i].name);
		throw_message(c, INPUT_SLOW, name, n, b, n);
		snprintf(name, sizeof name, "envelope: %s, and the answer is not taken", v[i].name);
		throw_message(c, INPUT_OPEN, name, n, b, n);
	}
}

static void
throw_floods(const struct corpus *c)
{
	unsigned char *b = malloc(1 << 20);
	size_t head = c->target->ipc ? 9 : 8, n = 8;
	char name[64];

	c->group(c->arg, "floods");
	memcpy(b, greeting, 8);
	for (int i = 0; i < 5000; i++) {
		memset(b + n, 0, head + 5);
		b[n] = c->target->ipc;
		b[n + head - 1] = 5;
		b[n + head] = 0x80;
		n += head + 5;
	}
	c->input(c->arg, INPUT_RAW, "5000 tiny messages, then gone", b, n);
	c->input(c->arg, INPUT_OPEN, "5000 tiny messages, answers not taken", b, n);
	for (int i = 0; i < 300; i++) {
		snprintf(name, sizeof name, "half open %d", i);
		c->input(c->arg, INPUT_OPEN, name, greeting, (size_t)(i % 9));
	}
	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof name, "come and gone %d", i);
		c->input(c->arg, INPUT_RAW, name, "", 0);
	}
	free(b);
}

void
corpus_bytes(const struct corpus *c)
{
	throw_greetings(c);
	throw_lengths(c);
	throw_damaged(c);
	throw_encodings(c);
	throw_envelopes(c);
	throw_floods(c);
}

/* ---- frames */

struct frame_input {
	const char *name;
	struct frame f;
	size_t nbytes; /* of payload that follows */
};

static size_t
pack_frame(const struct frame *f, const void *payload, size_t nbytes, unsigned char *out)
{
	frame_pack(f, out);
	memcpy(out + FRAME_HEADER, payload, nbytes);
	return FRAME_HEADER + nbytes;
}

/* Every field of a valid chunk set to hostile values; as data, ack, refusal and loan. */
static void
throw_fields(const struct corpus *c, enum frame_kind kind, const char *what)
{
	static const uint64_t v[] = {0,		 2,	     1023,	 1024,
				     1ull << 20, UINT32_MAX, 1ull << 32, 1ull << 61,
				     1ull << 62, 1ull << 63, UINT64_MAX};
	static const char *const field[] = {"comm", "device", "op",  "seq",   "epoch",
					    "dst",  "src",    "crc", "nbytes"};
	unsigned char payload[64] = {1, 2, 3}, b[256];
	char name[96];

	c->group(c->arg, what);
	for (size_t i = 0; i < COUNT(field); i++)
		for (size_t k = 0; k < COUNT(v); k++) {
			struct frame f = {.kind = kind,
					  .comm = c->target->comm,
					  .device = c->target->device,
					  .epoch = c->target->epoch,
					  .op = 5,
					  .src = 1,
					  .nbytes = kind == FRAME_ACK ? 0 : 64};
			size_t n = f.nbytes;

			f.crc = frame_crc(payload, n);
			switch (i) {
			case 0:
				f.comm = v[k];
				break;
			case 1:
				f.device = v[k];
				break;
			case 2:
				f.op = v[k];
				break;
			case 3:
				f.seq = (uint32_t)v[k];
				break;
			case 4:
				f.epoch = (uint32_t)v[k];
				break;
			case 5:
				f.dst = (uint32_t)v[k];
				break;
			case 6:
				f.src = (uint32_t)v[k];
				break;
			case 7:
				f.crc = (uint32_t)v[k];
				break;
			default:
				f.nbytes = (uint32_t)v[k];
				break;
			}
			snprintf(name, sizeof name, "%s: %s %#llx", what, field[i],
				 (unsigned long long)v[k]);
			c->input(c->arg, INPUT_RAW, name, b, pack_frame(&f, payload, n, b));
		}
}

static void
throw_headers(const struct corpus *c)
{
	unsigned char b[FRAME_HEADER + 64] = {0}, bad[sizeof b];
	struct frame f = {.kind = FRAME_DATA,
			  .comm = c->target->comm,
			  .device = c->target->device,
			  .epoch = c->target->epoch,
			  .src = 1,
			  .nbytes = 64,
			  .crc = frame_crc(b, 64)};
	char name[96];

	c->group(c->arg, "headers, truncated and damaged");
	frame_pack(&f, b);
	for (size_t n = 0; n < sizeof b; n += n < FRAME_HEADER ? 1 : 9) {
		snprintf(name, sizeof name, "frame: %zu bytes", n);
		c->input(c->arg, INPUT_RAW, name, b, n);
		snprintf(name, sizeof name, "frame: %zu bytes, then silence", n);
		c->input(c->arg, INPUT_OPEN, name, b, n);
	}
	for (size_t i = 0; i < FRAME_HEADER; i++) {
		memcpy(bad, b, sizeof b);
		bad[i] ^= 0x40;
		snprintf(name, sizeof name, "frame: byte %zu damaged", i);
		c->input(c->arg, INPUT_RAW, name, bad, sizeof bad);
	}
	for (unsigned kind = 0; kind < 256; kind += 15) {
		f.kind = (enum frame_kind)kind;
		frame_pack(&f, bad);
		snprintf(name, sizeof name, "frame: kind %u", kind);
		c->input(c->arg, INPUT_RAW, name, bad, sizeof bad);
	}
	c->input(c->arg, INPUT_SLOW, "frame: byte by byte", b, sizeof b);
	c->input(c->arg, INPUT_RAW, "frame: a greeting of SP", greeting, 8);
}

static void
throw_streams(const struct corpus *c)
{
	size_t room = 4u << 20, n = 0;
	unsigned char *b = calloc(1, room), *big = calloc(1, FRAME_PAYLOAD_MAX);
	struct frame f = {.kind = FRAME_ACK,
			  .comm = c->target->comm,
			  .device = c->target->device,
			  .epoch = c->target->epoch,
			  .src = 1};
	char name[64];

	c->group(c->arg, "streams of frames");
	for (; n + FRAME_HEADER < room; f.seq++, f.op++)
		n += pack_frame(&f, "", 0, b + n);
	c->input(c->arg, INPUT_RAW, "60000 acks of chunks never sent", b, n);
	f = (struct frame){.kind = FRAME_DATA,
			   .comm = c->target->comm,
			   .device = c->target->device,
			   .epoch = c->target->epoch,
			   .src = 1,
			   .op = 1000,
			   .nbytes = FRAME_PAYLOAD_MAX,
			   .crc = frame_crc(big, FRAME_PAYLOAD_MAX)};
	for (int i = 0; i < 100; i++, f.op++) {
		snprintf(name, sizeof name, "a mebibyte for operation %d, which nobody began", i);
		n = pack_frame(&f, big, FRAME_PAYLOAD_MAX, b);
		c->input(c->arg, INPUT_RAW, name, b, n);
	}
	for (int i = 0; i < 300; i++) {
		snprintf(name, sizeof name, "half open %d", i);
		c->input(c->arg, INPUT_OPEN, name, b, (size_t)i);
	}
	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof name, "come and gone %d", i);
		c->input(c->arg, INPUT_RAW, name, "", 0);
	}
	free(b);
	free(big);
}

void
corpus_frames(const struct corpus *c)
{
	throw_headers(c);
	throw_fields(c, FRAME_DATA, "data");
	throw_fields(c, FRAME_ACK, "ack");
	throw_fields(c, FRAME_REFUSE, "refusal");
	throw_streams(c);
}
