#include "digest.h"

#include <stdbool.h>
#include <string.h>

void
digest_add(struct digest *d, uint64_t v)
{
	uint64_t z = (d->h ^ v) + 0x9e3779b97f4a7c15ull; /* splitmix64 */

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	d->h = z ^ (z >> 31);
}

/* Bytes of one value in memory; 0: a text. */
static size_t
width(ProtobufCType type)
{
	switch (type) {
	case PROTOBUF_C_TYPE_STRING:
	case PROTOBUF_C_TYPE_BYTES:
		return 0;
	case PROTOBUF_C_TYPE_INT64:
	case PROTOBUF_C_TYPE_SINT64:
	case PROTOBUF_C_TYPE_SFIXED64:
	case PROTOBUF_C_TYPE_UINT64:
	case PROTOBUF_C_TYPE_FIXED64:
	case PROTOBUF_C_TYPE_DOUBLE:
		return 8;
	case PROTOBUF_C_TYPE_MESSAGE:
		return sizeof(void *);
	default:
		return 4;
	}
}

static void
add_value(struct digest *d, const ProtobufCFieldDescriptor *f, const char *at)
{
	uint64_t wide = 0;
	uint32_t narrow;

	if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
		const ProtobufCMessage *m;

		memcpy(&m, at, sizeof m);
		if (!m)
			return;
		digest_add(d, f->id);
		digest_message(d, m);
		return;
	}
	if (width(f->type) == 8) {
		memcpy(&wide, at, sizeof wide);
	} else {
		memcpy(&narrow, at, sizeof narrow);
		wide = narrow;
	}
	if (!wide && f->label != PROTOBUF_C_LABEL_REPEATED)
		return;
	digest_add(d, f->id);
	digest_add(d, wide);
}

void
digest_message(struct digest *d, const ProtobufCMessage *m)
{
	const char *base = (const char *)m;

	for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
		const char *at = base + f->offset;
		size_t n = 1;

		if (!width(f->type))
			continue;
		if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
			n = *(const uint32_t *)(base + f->quantifier_offset) == f->id;
		} else if (f->label == PROTOBUF_C_LABEL_REPEATED) {
			n = *(const size_t *)(base + f->quantifier_offset);
			at = *(const char *const *)at;
			if (n)
				digest_add(d, n);
		}
		for (size_t k = 0; k < n; k++)
			add_value(d, f, at + k * width(f->type));
	}
	digest_add(d, 0); /* the message ends */
}
