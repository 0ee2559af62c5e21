/*
 * hostile - send bytes to a daemon's socket that no honest peer would send.
 *
 *	hostile ADDR rep|frames SEED COUNT
 *
 * Each attack is one connection to an ipc or tcp address. The same seed makes the same bytes. Exits
 * 0 when all have been made, 1 if no one listens any more; the caller checks the daemon.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>

#include "gpu_sim.pb-c.h"
#include "nn/rng.h"
#include "raw.h"
#include "wire/frame.h"
#include "wire/wire.h"

#define HELD 64 /* connections left open in the middle of something */

static struct rng rng;
static bool ipc, frames; /* the address; the protocol there: frames, or requests to a REP */

static uint64_t
below(uint64_t n)
{
	return rng_below(&rng, n);
}

/* A boundary number. */
static uint64_t
nasty(void)
{
	static const uint64_t v[] = {0,
				     1,
				     2,
				     7,
				     63,
				     64,
				     255,
				     4096,
				     65535,
				     65536,
				     INT32_MAX,
				     UINT32_MAX,
				     1ull << 32,
				     1ull << 62,
				     1ull << 63,
				     UINT64_MAX,
				     UINT64_MAX - 40};

	return below(3) ? v[below(sizeof v / sizeof v[0])] : rng_next(&rng);
}

static void
put_noise(int fd, size_t n)
{
	unsigned char b[4096];

	for (size_t i = 0; i < sizeof b; i++)
		b[i] = (unsigned char)rng_next(&rng);
	raw_put(fd, b, n < sizeof b ? n : sizeof b);
}

/* The greeting of the protocol that the daemon expects, REQ; frames have none. */
static void
put_greeting(int fd)
{
	unsigned char g[8] = {0, 'S', 'P', 0, 0, 0x30, 0, 0};

	if (frames)
		return;
	if (below(16) == 0)
		g[5] = (unsigned char)rng_next(&rng);
	raw_put(fd, g, sizeof g);
}

static void
put_message(int fd, const void *data, size_t n)
{
	raw_put_length(fd, ipc, n);
	raw_put(fd, data, n);
}

/* Random fields as protobuf would write them, nested now and then. */
static size_t
random_fields(unsigned char *out, size_t room, unsigned depth)
{
	size_t n = 0;

	for (uint64_t k = below(6); k > 0 && n + 32 < room; k--) {
		unsigned field = (unsigned)below(24), type = below(2) ? 0 : 2;
		uint64_t v;

		out[n++] = (unsigned char)((field << 3 | type) & 0x7f);
		if (type == 0) {
			for (v = nasty(); v > 0x7f; v >>= 7)
				out[n++] = (unsigned char)(v | 0x80);
			out[n++] = (unsigned char)v;
		} else {
			size_t body = depth < 6 ? random_fields(out + n + 1, 100, depth + 1) : 0;

			out[n] = (unsigned char)(below(20) ? body : nasty());
			n += 1 + body;
		}
	}
	return n;
}

/* A request with a good envelope and any body, sometimes damaged. */
static void
attack_request(int fd)
{
	GpuSim__Request env = GPU_SIM__REQUEST__INIT;
	unsigned char b[8192];
	size_t n = 4, body;
	unsigned field = 16 + (unsigned)below(69);

	memcpy(b, "\x80\0\0\1", 4);
	env.clientid = below(8) ? 1 + below(4) : nasty();
	env.seq = below(8) ? 1 + below(1000000) : nasty();
	env.timeoutms = (uint32_t)nasty();
	env.version = below(16) ? WIRE_VERSION : (uint32_t)nasty();
	n += gpu_sim__request__pack(&env, b + n);
	b[n++] = (unsigned char)((field << 3 | 2) | 0x80);
	b[n++] = (unsigned char)(field >> 4);
	body = random_fields(b + n + 1, 120, 0);
	b[n] = (unsigned char)body;
	n += 1 + body;
	if (below(4) == 0)
		b[below(n)] = (unsigned char)rng_next(&rng);
	if (below(8) == 0)
		n = below(n);
	put_message(fd, b, n);
}

/* A data frame with a good header and any content. */
static void
attack_frame(int fd)
{
	unsigned char b[FRAME_HEADER + 256];
	size_t n = below(257);
	struct frame f = {.kind = (enum frame_kind)(1 + below(3)),
			  .comm = below(2) ? 1 + below(4) : nasty(),
			  .device = nasty(),
			  .op = below(2) ? below(10) : nasty(),
			  .seq = (uint32_t)nasty(),
			  .epoch = below(2) ? 1 : (uint32_t)nasty(),
			  .dst = (uint32_t)below(4),
			  .src = below(2) ? (uint32_t)below(4) : (uint32_t)nasty(),
			  .nbytes = (uint32_t)(below(8) ? n : nasty())};

	for (size_t i = 0; i < n; i++)
		b[FRAME_HEADER + i] = (unsigned char)rng_next(&rng);
	f.crc = frame_crc(b + FRAME_HEADER, n);
	frame_pack(&f, b);
	if (below(8) == 0)
		b[below(FRAME_HEADER)] ^= (unsigned char)(1 << below(8));
	raw_put(fd, b, FRAME_HEADER + n);
}

/* One connection's worth. True: leave it open. */
static bool
attack(int fd)
{
	switch (below(10)) {
	case 0: /* closed in the handshake */
		return false;
	case 1:
		put_noise(fd, 1 + below(64));
		return below(4) == 0;
	case 2:
		raw_put(fd, "\0SP", below(4));
		return below(2);
	case 3:
		put_greeting(fd);
		put_noise(fd, below(4096));
		return false;
	case 4: /* a length that lies */
		put_greeting(fd);
		raw_put_length(fd, ipc, nasty());
		put_noise(fd, below(256));
		return below(4) == 0;
	case 5:
		put_greeting(fd);
		put_message(fd, NULL, 0);
		return false;
	default:
		put_greeting(fd);
		for (uint64_t k = 1 + below(20); k > 0; k--)
			(frames ? attack_frame : attack_request)(fd);
		return below(8) == 0;
	}
}

int
main(int argc, char **argv)
{
	int held[HELD], fd;
	unsigned long count, nheld = 0, refused = 0;

	if (argc != 5) {
		fputs("usage: hostile ADDR rep|frames SEED COUNT\n", stderr);
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	ipc = strncmp(argv[1], "ipc://", 6) == 0;
	frames = strcmp(argv[2], "frames") == 0;
	rng_init(&rng, strtoull(argv[3], NULL, 0));
	count = strtoul(argv[4], NULL, 0);
	for (unsigned long i = 0; i < count; i++) {
		fd = raw_connect(argv[1]);
		if (fd < 0) {
			/* A listener is revived now and then: that may take a moment, but not forever. */
			if (++refused > 1000) {
				fprintf(stderr, "hostile: %s: %s after %lu attacks\n", argv[1],
					strerror(errno), i);
				return 1;
			}
			poll(NULL, 0, 10);
			continue;
		}
		refused = 0;
		if (!attack(fd)) {
			close(fd);
			continue;
		}
		if (nheld == HELD) {
			unsigned long k = below(HELD);

			close(held[k]);
			held[k] = fd;
		} else {
			held[nheld++] = fd;
		}
	}
	return 0;
}
