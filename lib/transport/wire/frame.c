#include "wire/frame.h"

#include <string.h>

#include "base/le.h"
#include "wire/crc32c.h"

#define FRAME_VERSION 3

static const unsigned char magic[4] = {'g', 'S', 'I', 'M'};

uint32_t
frame_crc(const void *data, size_t nbytes)
{
	return crc32c(data, nbytes < FRAME_CRC_MAX ? nbytes : FRAME_CRC_MAX);
}

uint32_t
frame_checksum(const struct frame *f, const void *payload)
{
	return f->whole ? crc32c(payload, f->nbytes) : frame_crc(payload, f->nbytes);
}

void
frame_pack(const struct frame *f, unsigned char out[FRAME_HEADER])
{
	memset(out, 0, FRAME_HEADER);
	memcpy(out, magic, 4);
	out[4] = FRAME_VERSION;
	out[5] = (unsigned char)f->kind;
	out[6] = f->whole;
	put64(out + 8, f->comm);
	put64(out + 16, f->device);
	put64(out + 24, f->op);
	put32(out + 32, f->seq);
	put32(out + 36, f->epoch);
	put32(out + 40, f->dst);
	put32(out + 44, f->src);
	put32(out + 48, f->nbytes);
	put32(out + 52, f->crc);
	put32(out + 56, f->mark);
	put32(out + 60, frame_crc(out, 60));
}

enum rc
frame_unpack(const unsigned char p[FRAME_HEADER], struct frame *out, struct err *err)
{
	struct frame f;

	if (memcmp(p, magic, 4) != 0)
		return err_set(err, RC_BADDATA, "not a data frame");
	if (p[4] != FRAME_VERSION)
		return err_set(err, RC_BADDATA, "data frame of version %u, expected %u", p[4],
			       FRAME_VERSION);
	if (get32(p + 60) != frame_crc(p, 60) || p[6] > 1 || p[7] != 0)
		return err_set(err, RC_BADDATA, "data frame with a damaged header");
	f = (struct frame){.kind = (enum frame_kind)p[5],
			   .comm = get64(p + 8),
			   .device = get64(p + 16),
			   .op = get64(p + 24),
			   .seq = get32(p + 32),
			   .epoch = get32(p + 36),
			   .dst = get32(p + 40),
			   .src = get32(p + 44),
			   .nbytes = get32(p + 48),
			   .crc = get32(p + 52),
			   .mark = get32(p + 56),
			   .whole = p[6] == 1};
	if (f.kind < FRAME_DATA || f.kind > FRAME_NACK)
		return err_set(err, RC_BADDATA, "data frame of unknown kind %d", (int)f.kind);
	if (f.nbytes > FRAME_PAYLOAD_MAX)
		return err_set(err, RC_BADDATA, "data frame of %u bytes: the limit is %u", f.nbytes,
			       FRAME_PAYLOAD_MAX);
	*out = f;
	return RC_OK;
}

enum rc
frame_check(const struct frame *f, const void *payload, struct err *err)
{
	if (f->crc == frame_checksum(f, payload))
		return RC_OK;
	return err_set(err, RC_BADDATA, "chunk %u of operation %llu from rank %u is damaged (crc)",
		       f->seq, (unsigned long long)f->op, f->src);
}
