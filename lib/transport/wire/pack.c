#include "wire/wire.h"

bool
buf_pack(struct buf *b, const ProtobufCMessage *m)
{
	size_t n = protobuf_c_message_get_packed_size(m);

	if (!buf_reserve(b, n + 1))
		return false;
	protobuf_c_message_pack(m, (uint8_t *)b->data + b->len);
	b->len += n;
	return true;
}

static size_t
put_varint(uint64_t v, uint8_t *out)
{
	size_t n = 0;

	for (; v >= 0x80; v >>= 7)
		out[n++] = (uint8_t)(v | 0x80);
	out[n++] = (uint8_t)v;
	return n;
}

bool
buf_pack_head(struct buf *b, uint32_t field, size_t nbytes)
{
	uint8_t head[20];
	size_t n = put_varint((uint64_t)field << 3 | 2, head);

	n += put_varint(nbytes, head + n);
	return buf_add(b, head, n);
}

bool
buf_pack_field(struct buf *b, uint32_t field, const ProtobufCMessage *m)
{
	size_t len = b->len;

	if (buf_pack_head(b, field, protobuf_c_message_get_packed_size(m)) && buf_pack(b, m))
		return true;
	b->len = len;
	return false;
}
