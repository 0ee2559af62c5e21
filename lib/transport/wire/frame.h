/*
 * frame.h - the header of a data frame, sent between two devices over a byte stream.
 *
 * A frame is FRAME_HEADER bytes of header, little-endian, and then `nbytes` of payload; README.md
 * draws it. A stream is frames and nothing else.
 *
 * Chunks of one (communicator, epoch, operation, src, dst) are numbered 0, 1, 2 ... in seq. An ack
 * travels the other way with the same names and seq = number of consumed chunks.
 */
#ifndef WIRE_FRAME_H
#define WIRE_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"

#define FRAME_HEADER	  64u
#define FRAME_PAYLOAD_MAX (1u << 20)
#define FRAME_CRC_MAX	  4096u /* bytes of a payload that its checksum covers */

/*
 * Operation numbers. A communicator's collectives count up from 0. Other sends and receives have their
 * own numbering for each pair of ranks, n = 1, 2 ... (proto Coll.p2p); the lab's BeginSend and
 * BeginReceive match by their stream id, which is below 2^62.
 */
#define FRAME_OP_SENDRECV(src, dst, n) \
	(1ull << 63 | (uint64_t)(src) << 50 | (uint64_t)(dst) << 40 | (n))
#define FRAME_OP_LAB(stream) (1ull << 62 | (stream))
#define FRAME_OP_MAX	     (1ull << 62) /* the communicator's own are below */
#define FRAME_SENDRECV_MAX   (1ull << 40) /* n is below */

/* The number to show: n of a pair, the stream id of the lab's. */
static inline uint64_t
frame_op_shown(uint64_t op)
{
	return op & 1ull << 63 ? op & (FRAME_SENDRECV_MAX - 1) : op & (FRAME_OP_MAX - 1);
}

enum frame_kind {
	FRAME_DATA = 1, /* one chunk */
	FRAME_ACK = 2,	/* the receiver has consumed the chunks before seq */
	FRAME_REFUSE =
	    3, /* the receiver refuses this operation's chunks: the payload is the reason */
	FRAME_NACK = 4, /* a chunk arrived damaged: send those from seq on again, now */
};

struct frame {
	enum frame_kind kind;
	uint64_t comm, device, op;
	uint32_t seq, epoch, dst, src;
	uint32_t nbytes;
	uint32_t crc;
	uint32_t mark; /* of a collective, the same on all its ranks; 0: not compared */
	bool whole;    /* the checksum covers all of the payload */
};

/*
 * The checksum of a payload: crc32c of its first FRAME_CRC_MAX bytes, or of all (f->whole).
 *
 * README.md says why the first bytes suffice. With injected damage, frames have all of theirs covered.
 */
uint32_t frame_crc(const void *data, size_t nbytes);

/* The checksum that a frame with this header and payload carries. */
uint32_t frame_checksum(const struct frame *f, const void *payload);

/* Write a header. */
void frame_pack(const struct frame *f, unsigned char out[FRAME_HEADER]);

/* Read and check a header: a frame, of this version, undamaged, of a legal length. RC_BADDATA with the
 * reason. */
enum rc frame_unpack(const unsigned char header[FRAME_HEADER], struct frame *out, struct err *err);

/* Check a payload against its header. RC_BADDATA. */
enum rc frame_check(const struct frame *f, const void *payload, struct err *err);

#endif
