/*
 * pack.h - messages packed piece by piece, so that bytes are copied and not unpacked and packed again.
 */
#ifndef WIRE_PACK_H
#define WIRE_PACK_H

#include <stdbool.h>

#include "base/buf.h"
#include "gpu_sim.pb-c.h"

/* Append the packed message; false: out of memory, *b is unchanged. */
bool buf_pack(struct buf *b, const ProtobufCMessage *m);
/* Append the message as field number `field` of the message that *b encodes. */
bool buf_pack_field(struct buf *b, uint32_t field, const ProtobufCMessage *m);
/* Append the head of such a field; its nbytes follow. */
bool buf_pack_head(struct buf *b, uint32_t field, size_t nbytes);

#endif
