/* Data frames: what is packed comes back, what is damaged does not; and their checksum. */
#include <stdlib.h>
#include <string.h>

#include "tap.h"
#include "wire/crc32c.h"
#include "wire/frame.h"

#define PAYLOAD 37

static const struct frame sample = {.kind = FRAME_DATA,
				    .comm = 0x0102030405060708u,
				    .device = 0xf1f2f3f4f5f6f7f8u,
				    .op = FRAME_OP_SENDRECV(1023, 2, 7),
				    .seq = 0xdeadbeefu,
				    .epoch = 3,
				    .dst = 4,
				    .src = 5,
				    .nbytes = PAYLOAD};

/* A whole frame, or the beginning of one: is it taken? */
static bool
taken(const unsigned char *m, size_t n, struct frame *out)
{
	struct frame f;
	struct err err = {0};

	if (n < FRAME_HEADER || frame_unpack(m, &f, &err) != RC_OK ||
	    f.nbytes != n - FRAME_HEADER || frame_check(&f, m + FRAME_HEADER, &err) != RC_OK)
		return false;
	*out = f;
	return true;
}

static size_t
make(unsigned char *out)
{
	struct frame f = sample;

	for (int i = 0; i < PAYLOAD; i++)
		out[FRAME_HEADER + i] = (unsigned char)(i * 7);
	f.crc = frame_crc(out + FRAME_HEADER, PAYLOAD);
	frame_pack(&f, out);
	return FRAME_HEADER + PAYLOAD;
}

static void
test_round_trip(void)
{
	unsigned char m[FRAME_HEADER + PAYLOAD];
	struct frame f = {0};
	size_t n = make(m);

	ok(taken(m, n, &f) && f.kind == sample.kind && f.comm == sample.comm &&
	       f.device == sample.device && f.op == sample.op && f.seq == sample.seq &&
	       f.epoch == sample.epoch && f.dst == sample.dst && f.src == sample.src &&
	       f.nbytes == PAYLOAD,
	   "a frame comes back as it was");
}

static void
test_damage(void)
{
	unsigned char m[FRAME_HEADER + PAYLOAD];
	struct frame f = {0};
	size_t n = make(m), wrong = 0;

	for (size_t bit = 0; bit < n * 8; bit++) {
		m[bit / 8] ^= (unsigned char)(1 << bit % 8);
		wrong += taken(m, n, &f);
		m[bit / 8] ^= (unsigned char)(1 << bit % 8);
	}
	ok(wrong == 0, "every single flipped bit is found");
	wrong = 0;
	for (size_t k = 0; k < n; k++)
		wrong += taken(m, k, &f);
	ok(wrong == 0, "every cut frame is refused");
	ok(f.kind == 0, "nothing is given out on failure");
}

/* A header that checks and says what cannot be. */
static void
test_lies(void)
{
	static const uint32_t lengths[] = {FRAME_PAYLOAD_MAX + 1, INT32_MAX, UINT32_MAX};
	unsigned char m[FRAME_HEADER + PAYLOAD];
	struct frame f = sample, got;
	struct err err = {0};
	size_t good = 0;

	make(m);
	f.crc = frame_crc(m + FRAME_HEADER, PAYLOAD);
	for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
		f.nbytes = lengths[i];
		frame_pack(&f, m);
		good += frame_unpack(m, &got, &err) == RC_OK;
	}
	ok(good == 0, "a length beyond any frame's is refused: %s", err.text);
	f.nbytes = PAYLOAD - 1;
	frame_pack(&f, m);
	ok(frame_unpack(m, &got, &err) == RC_OK &&
	       frame_check(&got, m + FRAME_HEADER, &err) == RC_BADDATA,
	   "one that lies is found out by the payload: %s", err.text);
	f.nbytes = PAYLOAD;
	good = 0;
	for (int kind = 0; kind < 256; kind++) {
		f.kind = (enum frame_kind)kind;
		frame_pack(&f, m);
		good += frame_unpack(m, &got, &err) == RC_OK;
	}
	ok(good == 4, "there are four kinds, beside the loan, which has a length of its own");
}

/* Payloads whose checksum covers all, and those of which it covers the beginning. */
static void
test_whole(void)
{
	static unsigned char payload[2 * FRAME_CRC_MAX], header[FRAME_HEADER];
	struct frame f = sample, got;
	struct err err = {0};
	bool good = true;

	f.nbytes = sizeof payload;
	for (int whole = 0; whole < 2; whole++) {
		f.whole = whole;
		f.crc = frame_checksum(&f, payload);
		frame_pack(&f, header);
		good &= frame_unpack(header, &got, &err) == RC_OK && got.whole == f.whole &&
			frame_check(&got, payload, &err) == RC_OK;
		payload[sizeof payload - 1] ^= 1;
		good &= frame_check(&got, payload, &err) == (whole ? RC_BADDATA : RC_OK);
		payload[sizeof payload - 1] ^= 1;
	}
	ok(good, "a last byte that changed is found when all are covered: %s", err.text);
}

static void
test_operations(void)
{
	ok(FRAME_OP_SENDRECV(0, 0, 1) >= FRAME_OP_MAX && FRAME_OP_LAB(64) >= FRAME_OP_MAX &&
	       FRAME_OP_SENDRECV(1023, 1023, FRAME_SENDRECV_MAX - 1) !=
		   FRAME_OP_SENDRECV(1023, 1022, FRAME_SENDRECV_MAX - 1),
	   "the three numberings do not meet");
}

static void
test_crc(void)
{
	unsigned char *b = malloc(4096 + 64);
	bool same = true;

	ok(crc32c("123456789", 9) == 0xe3069283u && crc32c_portable("123456789", 9) == 0xe3069283u,
	   "the check value of RFC 3720");
	for (size_t i = 0; i < 4096 + 64; i++)
		b[i] = (unsigned char)(i * i >> 3 ^ i);
	for (size_t off = 0; off < 9; off++)
		for (size_t n = 0; n < 300; n++)
			same &= crc32c(b + off, n) == crc32c_portable(b + off, n);
	ok(same && crc32c(b, 4096) == crc32c_portable(b, 4096) && crc32c(b, 0) == 0,
	   "with and without the instruction, at every alignment and length");
	free(b);
}

int
main(void)
{
	test_round_trip();
	test_damage();
	test_lies();
	test_whole();
	test_operations();
	test_crc();
	return tap_done();
}
