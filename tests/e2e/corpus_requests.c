/*
 * Requests made from the messages' own descriptors, so that a new field is attacked as soon as it exists. A
 * plausible message of each kind is built field by field; in each variant one field, the `aim`-th on the
 * way, takes the `how`-th hostile value of its type. A message's parts are freed together after sending.
 */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "corpus.h"
#include "gpu_sim.pb-c.h"
#include "wire/wire.h"

#define BODY_FIELDS_BELOW 16 /* a Request's fields below are the envelope's */
#define DEPTH_MAX	  6

struct making {
	const struct corpus_target *target;
	unsigned pick; /* the member of a oneof */
	int aim, at, how;
	bool hit;
	char path[256], what[64];
};

static const uint64_t nasty_u64[] = {
    0,		1,	    4095,	1ull << 20,	UINT32_MAX,	   1ull << 32,
    1ull << 61, 1ull << 62, 1ull << 63, UINT64_MAX / 2, UINT64_MAX - 4095, UINT64_MAX};
static const uint32_t nasty_u32[] = {0, 1, 2, 63, 64, 1023, 1024, 65536, INT32_MAX, UINT32_MAX};
static const int32_t nasty_enum[] = {-1, 9, 11, 127, INT32_MAX, INT32_MIN};
static const double nasty_double[] = {NAN, INFINITY, -INFINITY, 1e308};
static const char *const nasty_string[] = {
    "",	    "\x1b[2J\n",      "%s%n%s",	  "../../../../etc/passwd", "/etc/passwd", "/dev/zero",
    "DIR/", "DIR/fifo",	      "DIR/link", "ipc:///nowhere/at/all",  "auto",	   "ring",
    "\xff", "tcp://0.0.0.0:1"};
static const unsigned nasty_count[] = {0,
				       2,
				       WIRE_MAX_ARGS,
				       WIRE_MAX_ARGS + 1,
				       WIRE_MAX_RANKS,
				       WIRE_MAX_RANKS + 1,
				       WIRE_MAX_OPS,
				       WIRE_MAX_OPS + 1};
static const size_t nasty_bytes[] = {0, 1, WIRE_BULK_MAX, WIRE_BULK_MAX + 1, 1000000};

#define COUNT(v) ((int)(sizeof(v) / sizeof *(v)))

/* The parts of the current message. */
struct part {
	struct part *next;
	max_align_t room[];
};

static struct part *parts;

/* nbytes that are 0, until parts_free. */
static void *
part(size_t nbytes)
{
	struct part *p = calloc(1, sizeof *p + nbytes);

	if (!p)
		abort();
	p->next = parts;
	parts = p;
	return p->room;
}

static void
parts_free(void)
{
	struct part *p;

	while ((p = parts)) {
		parts = p->next;
		free(p);
	}
}

/* Is the current field the one to hit? Then `what`, its new value, goes into the name. */
static bool
aimed(struct making *m, int nvalues)
{
	bool mine = m->at++ == m->aim && m->how < nvalues;

	m->hit |= mine;
	return mine;
}

static uint64_t
plausible(const struct making *m, const char *name)
{
	static const struct {
		const char *name;
		uint64_t value;
	} v[] = {{"addr", 1 << 20}, {"sendAddr", 1 << 20}, {"recvAddr", 1 << 20},
		 {"dst", 1 << 20},  {"src", 1 << 20},	   {"value", 1 << 20},
		 {"nbytes", 4096},  {"numBytes", 4096},	   {"nelem", 64},
		 {"count", 64},	    {"iterations", 1},	   {"run", 1},
		 {"numDevices", 1}, {"graphId", 1},	   {"chunkBytes", 4096},
		 {"u", 64},	    {"idLow", 1},	   {"numRanks", 2}};

	if (strcmp(name, "commId") == 0)
		return m->target->comm;
	if (strcmp(name, "epoch") == 0)
		return m->target->epoch;
	if (strcmp(name, "deviceId") == 0 || strcmp(name, "deviceIds") == 0)
		return m->target->device;
	for (int i = 0; i < COUNT(v); i++)
		if (strcmp(v[i].name, name) == 0)
			return v[i].value;
	return 0;
}

static char *
make_string(struct making *m)
{
	int n = COUNT(nasty_string);
	char *s = part(200000);

	strcpy(s, "fill");
	if (!aimed(m, n + 2))
		return s;
	if (m->how < n) {
		const char *v = nasty_string[m->how];

		snprintf(m->what, sizeof m->what, "string %d", m->how);
		if (strncmp(v, "DIR", 3) == 0)
			sprintf(s, "%s%s", m->target->dir, v + 3);
		else
			strcpy(s, v);
	} else {
		size_t nbytes = m->how == n ? WIRE_NAME_MAX : 199999;

		snprintf(m->what, sizeof m->what, "%zu bytes", nbytes);
		memset(s, 'a', nbytes);
		s[nbytes] = '\0';
	}
	return s;
}

static ProtobufCMessage *make(struct making *m, const ProtobufCMessageDescriptor *d,
			      unsigned depth);

/* One value of the field's type, at `p`. */
static void
make_value(struct making *m, const ProtobufCFieldDescriptor *f, void *p, unsigned depth)
{
	ProtobufCBinaryData *b = p;

	switch (f->type) {
	case PROTOBUF_C_TYPE_UINT64:
		*(uint64_t *)p = plausible(m, f->name);
		if (aimed(m, COUNT(nasty_u64))) {
			*(uint64_t *)p = nasty_u64[m->how];
			snprintf(m->what, sizeof m->what, "%#llx",
				 (unsigned long long)nasty_u64[m->how]);
		}
		break;
	case PROTOBUF_C_TYPE_UINT32:
		*(uint32_t *)p = (uint32_t)plausible(m, f->name);
		if (aimed(m, COUNT(nasty_u32))) {
			*(uint32_t *)p = nasty_u32[m->how];
			snprintf(m->what, sizeof m->what, "%#x", nasty_u32[m->how]);
		}
		break;
	case PROTOBUF_C_TYPE_ENUM:
		if (aimed(m, COUNT(nasty_enum))) {
			*(int32_t *)p = nasty_enum[m->how];
			snprintf(m->what, sizeof m->what, "enum %d", nasty_enum[m->how]);
		}
		break;
	case PROTOBUF_C_TYPE_BOOL:
		if (aimed(m, 1)) {
			*(protobuf_c_boolean *)p = true;
			snprintf(m->what, sizeof m->what, "true");
		}
		break;
	case PROTOBUF_C_TYPE_DOUBLE:
		if (aimed(m, COUNT(nasty_double))) {
			*(double *)p = nasty_double[m->how];
			snprintf(m->what, sizeof m->what, "%g", nasty_double[m->how]);
		}
		break;
	case PROTOBUF_C_TYPE_STRING:
		*(char **)p = make_string(m);
		break;
	case PROTOBUF_C_TYPE_BYTES:
		b->len = 64;
		b->data = part(1000000);
		if (aimed(m, COUNT(nasty_bytes))) {
			b->len = nasty_bytes[m->how];
			snprintf(m->what, sizeof m->what, "%zu bytes", b->len);
		}
		break;
	case PROTOBUF_C_TYPE_MESSAGE:
		*(ProtobufCMessage **)p = make(m, f->descriptor, depth + 1);
		break;
	default:
		break;
	}
}

static size_t
value_size(const ProtobufCFieldDescriptor *f)
{
	switch (f->type) {
	case PROTOBUF_C_TYPE_UINT64:
	case PROTOBUF_C_TYPE_DOUBLE:
		return 8;
	case PROTOBUF_C_TYPE_BYTES:
		return sizeof(ProtobufCBinaryData);
	case PROTOBUF_C_TYPE_STRING:
	case PROTOBUF_C_TYPE_MESSAGE:
		return sizeof(void *);
	default:
		return 4;
	}
}

/* One entry, or many equal ones. */
static void
make_repeated(struct making *m, const ProtobufCFieldDescriptor *f, char *base, size_t *n,
	      unsigned depth)
{
	size_t size = value_size(f);
	char *v = part((WIRE_MAX_OPS + 1) * size);

	*n = 1;
	if (aimed(m, COUNT(nasty_count))) {
		*n = nasty_count[m->how];
		snprintf(m->what, sizeof m->what, "%zu times", *n);
	}
	make_value(m, f, v, depth);
	for (size_t i = 1; i < *n; i++)
		memcpy(v + i * size, v, size);
	*(char **)base = v;
}

static ProtobufCMessage *
make(struct making *m, const ProtobufCMessageDescriptor *d, unsigned depth)
{
	ProtobufCMessage *msg = part(d->sizeof_message);
	size_t len = strlen(m->path);
	unsigned noneof = 0, seen = 0;

	protobuf_c_message_init(d, msg);
	for (unsigned i = 0; i < d->n_fields; i++)
		noneof += (d->fields[i].flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
	for (unsigned i = 0; i < d->n_fields && depth < DEPTH_MAX; i++) {
		const ProtobufCFieldDescriptor *f = &d->fields[i];
		char *base = (char *)msg + f->offset, *q = (char *)msg + f->quantifier_offset;
		bool was = m->hit;

		if (!was)
			snprintf(m->path + len, sizeof m->path - len, ".%s", f->name);
		if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
			if (seen++ != m->pick % noneof)
				continue;
			*(uint32_t *)q = f->id;
		}
		if (f->label == PROTOBUF_C_LABEL_REPEATED)
			make_repeated(m, f, base, (size_t *)q, depth);
		else
			make_value(m, f, base, depth);
	}
	if (!m->hit)
		m->path[len] = '\0';
	return msg;
}

/* Pack a request whose body is the field `f` with `body`, in an envelope without numbers. */
static size_t
pack(const ProtobufCFieldDescriptor *f, ProtobufCMessage *body, unsigned char **out)
{
	GpuSim__Request req = GPU_SIM__REQUEST__INIT;
	size_t n;

	req.body_case = (GpuSim__Request__BodyCase)f->id;
	*(ProtobufCMessage **)((char *)&req + f->offset) = body;
	n = gpu_sim__request__get_packed_size(&req);
	*out = malloc(n + 1);
	gpu_sim__request__pack(&req, *out);
	return n;
}

static void throw(const struct corpus *c, const ProtobufCFieldDescriptor *f, ProtobufCMessage *body,
		  const char *path, const char *what)
{
	char name[400];
	unsigned char *data;
	size_t n = pack(f, body, &data);

	snprintf(name, sizeof name, "%s%s: %s", f->name, path, what);
	c->input(c->arg, INPUT_REQUEST, name, data, n);
	free(data);
	parts_free();
}

/* All inputs of one kind with one choice of oneofs that change a field; corpus.c skips names that
 * it has seen. */
static void
throw_kind(const struct corpus *c, const ProtobufCFieldDescriptor *f, unsigned pick)
{
	struct making m = {.target = c->target, .pick = pick, .aim = -1};

	throw(c, f, make(&m, f->descriptor, 0), "", pick ? "another" : "plausible");
	for (int aim = 0, nfields = m.at; aim < nfields; aim++)
		for (int how = 0;; how++) {
			struct making v = {
			    .target = c->target, .pick = pick, .aim = aim, .how = how};
			ProtobufCMessage *body = make(&v, f->descriptor, 0);

			if (!v.hit) {
				parts_free();
				break;
			}
			throw(c, f, body, v.path, v.what);
		}
}

/* Kinds that end the targets of the others come last. */
static bool
ends_it(const ProtobufCFieldDescriptor *f)
{
	static const char *const v[] = {"commAttach", "commDetach",  "commAbort",
					"commJoin",   "commDestroy", "commShrink"};

	for (int i = 0; i < COUNT(v); i++)
		if (strcmp(f->name, v[i]) == 0)
			return true;
	return false;
}

void
corpus_requests(const struct corpus *c)
{
	const ProtobufCMessageDescriptor *d = &gpu_sim__request__descriptor;

	c->group(c->arg, "empty requests of every kind");
	for (unsigned i = 0; i < d->n_fields; i++) {
		const ProtobufCFieldDescriptor *f = &d->fields[i];
		ProtobufCMessage *body;

		if (f->id < BODY_FIELDS_BELOW)
			continue;
		body = part(((const ProtobufCMessageDescriptor *)f->descriptor)->sizeof_message);
		protobuf_c_message_init(f->descriptor, body);
		throw(c, f, body, "", "empty");
	}
	for (int last = 0; last < 2; last++)
		for (unsigned i = 0; i < d->n_fields; i++) {
			const ProtobufCFieldDescriptor *f = &d->fields[i];

			if (f->id < BODY_FIELDS_BELOW || ends_it(f) != last)
				continue;
			c->group(c->arg, f->name);
			/* As many as the largest oneof has members; the rest repeats names. */
			for (unsigned pick = 0; pick < 6; pick++)
				throw_kind(c, f, pick);
		}
}
