#include "wire/wire.h"

#include <stdlib.h>
#include <string.h>

/*
 * protobuf-c allocates through this while it unpacks: plain malloc until the budget is spent.
 * The default allocator, which is free(), releases its results.
 */
struct budget {
	size_t left;
};

static void *
budget_alloc(void *arg, size_t nbytes)
{
	struct budget *b = arg;

	/* An allocation costs its bookkeeping too. */
	if (nbytes > b->left || nbytes + 32 > b->left)
		return NULL;
	b->left -= nbytes + 32;
	return malloc(nbytes);
}

static void
budget_free(void *arg, void *p)
{
	(void)arg;
	free(p);
}

/* Check that strings are short and on one line, and that required submessages are present. */
static enum rc check_message(const ProtobufCMessage *m, unsigned depth, struct err *err);

static enum rc
check_string(const char *s, const ProtobufCFieldDescriptor *f, struct err *err)
{
	/* Messages may be as long as in struct err; names are short. */
	size_t max = strcmp(f->name, "message") == 0 || strcmp(f->name, "reason") == 0 ||
			     strcmp(f->name, "note") == 0 || strcmp(f->name, "recovered") == 0 ||
			     strcmp(f->name, "text") == 0
			 ? sizeof err->text
			 : WIRE_NAME_MAX;
	size_t n = strnlen(s, max);

	if (n >= max)
		return err_set(err, RC_BADDATA, "%s: longer than %zu bytes", f->name, max - 1);
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f)
			return err_set(err, RC_BADDATA, "%s: holds a control character", f->name);
	return RC_OK;
}

/* A schedule has its own limit; other bytes have that of the message. */
static enum rc
check_bytes(const ProtobufCBinaryData *b, const ProtobufCFieldDescriptor *f, struct err *err)
{
	if (b->len > WIRE_SCHEDULE_MAX && strcmp(f->name, "schedule") == 0)
		return err_set(err, RC_BADDATA, "%s: %zu bytes: the limit is %u", f->name, b->len,
			       WIRE_SCHEDULE_MAX);
	return RC_OK;
}

static size_t
repeated_max(const ProtobufCFieldDescriptor *f)
{
	if (strcmp(f->name, "ops") == 0)
		return WIRE_MAX_OPS;
	if (strcmp(f->name, "args") == 0)
		return WIRE_MAX_ARGS;
	return WIRE_MAX_RANKS;
}

static enum rc
check_field(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f, unsigned depth,
	    struct err *err)
{
	const char *base = (const char *)m + f->offset;
	size_t n = 1;
	enum rc rc = RC_OK;

	if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF &&
	    *(const uint32_t *)((const char *)m + f->quantifier_offset) != f->id)
		return RC_OK;
	if (f->label == PROTOBUF_C_LABEL_REPEATED) {
		n = *(const size_t *)((const char *)m + f->quantifier_offset);
		if (n > repeated_max(f))
			return err_set(err, RC_BADDATA, "%s: %zu entries: the limit is %zu",
				       f->name, n, repeated_max(f));
		if (n == 0)
			return RC_OK;
		base = *(const char *const *)base;
	}
	for (size_t i = 0; i < n && rc == RC_OK; i++) {
		const void *p;

		switch (f->type) {
		case PROTOBUF_C_TYPE_STRING:
			p = ((const void *const *)base)[i];
			if (p)
				rc = check_string(p, f, err);
			break;
		case PROTOBUF_C_TYPE_MESSAGE:
			p = ((const void *const *)base)[i];
			if (p)
				rc = check_message(p, depth + 1, err);
			else if (f->label == PROTOBUF_C_LABEL_REPEATED ||
				 f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
				rc = err_set(err, RC_BADDATA, "%s: missing", f->name);
			break;
		case PROTOBUF_C_TYPE_BYTES:
			rc = check_bytes((const ProtobufCBinaryData *)base + i, f, err);
			break;
		default:
			break;
		}
	}
	return rc;
}

static enum rc
check_message(const ProtobufCMessage *m, unsigned depth, struct err *err)
{
	enum rc rc = RC_OK;

	if (depth > 8)
		return err_set(err, RC_BADDATA, "nested too deep");
	for (unsigned i = 0; i < m->descriptor->n_fields && rc == RC_OK; i++)
		rc = check_field(m, &m->descriptor->fields[i], depth, err);
	return rc;
}

enum rc
wire_message_unpack(const ProtobufCMessageDescriptor *d, const void *data, size_t nbytes,
		    size_t max, ProtobufCMessage **out, size_t *taken, struct err *err)
{
	const size_t budget = WIRE_UNPACK_MAX + (nbytes > WIRE_CONTROL_MAX ? nbytes : 0);
	struct budget b = {budget};
	ProtobufCAllocator a = {budget_alloc, budget_free, &b};
	ProtobufCMessage *m;
	enum rc rc;

	if (nbytes > max)
		return err_set(err, RC_BADDATA, "message of %zu bytes: the limit is %zu", nbytes,
			       max);
	m = protobuf_c_message_unpack(d, &a, nbytes, data);
	if (!m)
		return err_set(err, RC_BADDATA, "%zu bytes: not a %s", nbytes, d->name);
	rc = check_message(m, 0, err);
	if (rc != RC_OK) {
		protobuf_c_message_free_unpacked(m, NULL);
		return rc;
	}
	*out = m;
	*taken = budget - b.left;
	return RC_OK;
}

enum rc
wire_request_unpack(const void *data, size_t nbytes, GpuSim__Request **out, struct err *err)
{
	size_t taken;

	return wire_request_unpack_sized(data, nbytes, out, &taken, err);
}

enum rc
wire_request_unpack_sized(const void *data, size_t nbytes, GpuSim__Request **out, size_t *taken,
			  struct err *err)
{
	ProtobufCMessage *m;
	GpuSim__Request *req;
	enum rc rc = wire_message_unpack(&gpu_sim__request__descriptor, data, nbytes,
					 WIRE_CONTROL_MAX, &m, taken, err);

	if (rc != RC_OK)
		return rc;
	req = (GpuSim__Request *)m;
	if (req->version != WIRE_VERSION)
		rc = err_set(err, RC_BADDATA, "protocol version %u, expected %u", req->version,
			     WIRE_VERSION);
	else if (req->clientid == 0 || req->seq == 0)
		rc = err_set(err, RC_BADDATA, "request without a client id and sequence number");
	else if (req->body_case == GPU_SIM__REQUEST__BODY__NOT_SET)
		rc = err_set(err, RC_BADDATA, "request of an unknown kind");
	if (rc != RC_OK) {
		wire_request_free(req);
		return rc;
	}
	*out = req;
	return RC_OK;
}

enum rc
wire_reply_unpack(const void *data, size_t nbytes, GpuSim__Reply **out, struct err *err)
{
	ProtobufCMessage *m;
	size_t taken;
	enum rc rc = wire_message_unpack(&gpu_sim__reply__descriptor, data, nbytes,
					 WIRE_CONTROL_MAX, &m, &taken, err);

	if (rc == RC_OK)
		*out = (GpuSim__Reply *)m;
	return rc;
}

void
wire_request_free(GpuSim__Request *req)
{
	if (req)
		gpu_sim__request__free_unpacked(req, NULL);
}

void
wire_reply_free(GpuSim__Reply *reply)
{
	if (reply)
		gpu_sim__reply__free_unpacked(reply, NULL);
}

const char *
wire_request_name(const GpuSim__Request *req)
{
	const ProtobufCFieldDescriptor *f =
	    protobuf_c_message_descriptor_get_field(&gpu_sim__request__descriptor, req->body_case);

	return f ? f->name : "nothing";
}

uint64_t
wire_request_comm(const GpuSim__Request *req)
{
	const ProtobufCFieldDescriptor *f =
	    protobuf_c_message_descriptor_get_field(&gpu_sim__request__descriptor, req->body_case);
	const ProtobufCMessage *body;
	uint64_t comm;

	if (!f)
		return 0;
	memcpy(&body, (const char *)req + f->offset, sizeof body);
	f = protobuf_c_message_descriptor_get_field_by_name(body->descriptor, "commId");
	if (!f || f->type != PROTOBUF_C_TYPE_UINT64)
		return 0;
	memcpy(&comm, (const char *)body + f->offset, sizeof comm);
	return comm;
}

uint32_t
wire_packed_kind(const void *body, size_t nbytes)
{
	const uint8_t *p = body;
	uint32_t tag = 0;

	for (size_t i = 0; i < nbytes && i < 4; i++) {
		tag |= (uint32_t)(p[i] & 0x7f) << (7 * i);
		if (!(p[i] & 0x80))
			return tag >> 3;
	}
	return 0;
}

const char *
wire_policy_name(int on_failure)
{
	static const char *const name[] = {[GPU_SIM__ON_FAILURE__ABORT] = "abort",
					   [GPU_SIM__ON_FAILURE__SHRINK] = "shrink",
					   [GPU_SIM__ON_FAILURE__RESPAWN] = "respawn",
					   [GPU_SIM__ON_FAILURE__SPARE] = "spare"};

	return on_failure >= 0 && on_failure < (int)(sizeof name / sizeof *name) ? name[on_failure]
										 : NULL;
}

enum rc
wire_policy_parse(const char *text, int *on_failure, struct err *err)
{
	const char *name;

	for (int i = 0; (name = wire_policy_name(i)); i++)
		if (strcmp(text, name) == 0) {
			*on_failure = i;
			return RC_OK;
		}
	return err_set(err, RC_INVAL, "'%.64s': must be one of abort, shrink, respawn, spare",
		       text);
}

void
wire_reply_failure(GpuSim__Reply *reply, const struct err *err)
{
	reply->code = err->rc == RC_OK ? RC_INTERNAL : err->rc;
	reply->message = (char *)err->text;
	reply->body_case = GPU_SIM__REPLY__BODY__NOT_SET;
}

enum rc
wire_reply_rc(const GpuSim__Reply *reply, struct err *err)
{
	if (reply->code == RC_OK)
		return RC_OK;
	return err_set(err, reply->code <= RC_RECOVERED ? (enum rc)reply->code : RC_INTERNAL, "%s",
		       reply->message && *reply->message ? reply->message : "no reason given");
}
