/*
 * corpus - send a fixed corpus of hostile inputs to one daemon, and check that it survives.
 *
 *	corpus coord|device|data ADDR CONTROL PID COMM EPOCH DEVICE DIR
 *
 * ADDR is attacked; at CONTROL the daemon, process PID, answers requests. COMM, EPOCH and DEVICE
 * exist there; DIR is a directory with files that are not memory files.
 *
 * Every request must be answered, or its connection dropped. After each group of inputs the daemon
 * answers a proper request, is the same process, and has released descriptors, threads and memory
 * within a bound. Prints the inputs; exits 0 if all checks passed.
 */
#include "corpus.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>

#include "base/clock.h"
#include "gpu_sim.pb-c.h"
#include "raw.h"
#include "wire/wire.h"

#define HELD_MAX	4096
#define OUTSTANDING_MAX 256
#define FDS_MORE	24
#define THREADS_MORE	8
#define RSS_MORE_MIB	192
#define SETTLE_MS	40000 /* longer than an operation may wait */
#define ANSWER_MS	10000
#define NAMES		(1u << 16)

static struct {
	const char *role, *addr, *control;
	long pid;
	bool ipc;
	/* the connection for requests */
	int fd;
	uint32_t next_id, outstanding;
	uint64_t seq;
	unsigned char in[WIRE_CONTROL_MAX + 64];
	size_t have;
	/* this group */
	char group[96];
	int held[HELD_MAX];
	size_t nheld;
	/* in all */
	unsigned ninputs, nanswers, ndropped, ngroup, ngroups, failures;
	uint64_t name[NAMES];
} g = {.fd = -1};

__attribute__((format(printf, 1, 2))) static void
failed(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fprintf(stderr, "corpus: %s: %s: ", g.role, g.group);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	g.failures++;
}

/* Is the name new? */
static bool
note_name(const char *name)
{
	uint64_t h = 14695981039346656037ull;

	for (; *name; name++)
		h = (h ^ (unsigned char)*name) * 0x100000001b3ull;
	for (uint64_t i = h;; i++) {
		uint64_t *at = &g.name[i % NAMES];

		if (*at == h)
			return false;
		if (*at == 0) {
			*at = h;
			return true;
		}
	}
}

/* ---- requests and their answers, many on one connection */

static bool
connect_request(void)
{
	static const unsigned char hello[8] = {0, 'S', 'P', 0, 0, 0x30, 0, 0};
	uint64_t end = deadline_in_ms(ANSWER_MS);
	struct pollfd p = {.events = POLLIN};
	unsigned char theirs[8];

	/* A daemon under attack may take a moment, or be out of descriptors. */
	while (g.fd < 0 && clock_now_ns() < end) {
		g.fd = raw_connect(g.addr);
		if (g.fd >= 0)
			raw_put(g.fd, hello, sizeof hello);
		p.fd = g.fd;
		if (g.fd >= 0 &&
		    (poll(&p, 1, 3000) != 1 || recv(g.fd, theirs, 8, MSG_WAITALL) != 8)) {
			close(g.fd);
			g.fd = -1;
		}
		if (g.fd < 0)
			poll(NULL, 0, 10);
	}
	g.have = 0;
	g.outstanding = 0;
	return g.fd >= 0;
}

static void
dropped(void)
{
	close(g.fd);
	g.fd = -1;
	g.ndropped += g.outstanding;
	g.outstanding = 0;
}

/* One complete message: the answer to a request. */
static void
take_answer(const unsigned char *body, size_t n)
{
	GpuSim__Reply *reply = NULL;
	struct err err = {0};

	if (n < 4 || wire_reply_unpack(body + 4, n - 4, &reply, &err) != RC_OK)
		failed("an answer that is none: %s", err.text);
	else if (wire_reply_rc(reply, &err) == RC_INTERNAL)
		failed("answered with an internal error: %s", err.text);
	wire_reply_free(reply);
	g.outstanding -= g.outstanding > 0;
	g.nanswers++;
}

/* Take the answers that come within the time; false: the connection was closed. */
static bool
take_answers(int timeout_ms)
{
	size_t head = g.ipc ? 9 : 8, at = 0;
	struct pollfd p = {.fd = g.fd, .events = POLLIN};
	ssize_t k;

	if (g.fd < 0 || poll(&p, 1, timeout_ms) != 1)
		return g.fd >= 0;
	k = recv(g.fd, g.in + g.have, sizeof g.in - g.have, MSG_DONTWAIT);
	if (k <= 0) {
		dropped();
		return false;
	}
	g.have += (size_t)k;
	while (g.have - at >= head) {
		uint64_t n;

		memcpy(&n, g.in + at + head - 8, 8);
		n = be64toh(n);
		if (n > WIRE_CONTROL_MAX) {
			failed("an answer of %" PRIu64 " bytes", n);
			dropped();
			return false;
		}
		if (g.have - at - head < n)
			break;
		take_answer(g.in + at + head, n);
		at += head + n;
	}
	memmove(g.in, g.in + at, g.have - at);
	g.have -= at;
	return true;
}

/* A valid envelope follows the input. */
static void
throw_request(const void *data, size_t nbytes)
{
	GpuSim__Request env = GPU_SIM__REQUEST__INIT;
	unsigned char e[64];
	uint32_t id = htonl(0x80000000u | (++g.next_id & 0x7fffffffu));
	size_t n;

	if (g.fd < 0 && !connect_request()) {
		failed("nobody listens any more");
		return;
	}
	env.clientid = 0x686f7374696c65;
	env.seq = ++g.seq;
	env.timeoutms = 300;
	env.version = WIRE_VERSION;
	n = gpu_sim__request__pack(&env, e);
	g.outstanding++;
	raw_put_length(g.fd, g.ipc, 4 + nbytes + n);
	raw_put(g.fd, &id, 4);
	raw_put(g.fd, data, nbytes);
	raw_put(g.fd, e, n);
	while (take_answers(g.outstanding > OUTSTANDING_MAX ? ANSWER_MS : 0) &&
	       g.outstanding > OUTSTANDING_MAX)
		;
}

/* ---- bytes on separate connections */

static void
throw_raw(enum input_kind kind, const void *data, size_t nbytes)
{
	int fd = -1;

	/* The same moment. */
	for (uint64_t end = deadline_in_ms(ANSWER_MS); fd < 0 && clock_now_ns() < end;) {
		fd = raw_connect(g.addr);
		if (fd < 0)
			poll(NULL, 0, 10);
	}
	if (fd < 0) {
		failed("nobody listens any more: %s", strerror(errno));
		return;
	}
	if (kind == INPUT_SLOW)
		for (size_t i = 0; i < nbytes; i++)
			raw_put(fd, (const char *)data + i, 1);
	else
		raw_put(fd, data, nbytes);
	if (kind == INPUT_RAW || g.nheld == HELD_MAX)
		close(fd);
	else
		g.held[g.nheld++] = fd;
}

/* ---- the daemon's health */

struct health {
	unsigned fds, threads, rss_mib;
};

static struct health
look(void)
{
	struct health h = {0};
	char path[64], line[256];
	struct dirent *e;
	unsigned kib;
	DIR *dir;
	FILE *f;

	snprintf(path, sizeof path, "/proc/%ld/fd", g.pid);
	dir = opendir(path);
	while (dir && (e = readdir(dir)))
		h.fds++;
	if (dir)
		closedir(dir);
	snprintf(path, sizeof path, "/proc/%ld/status", g.pid);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof line, f)) {
		sscanf(line, "Threads: %u", &h.threads);
		if (sscanf(line, "VmRSS: %u", &kib) == 1)
			h.rss_mib = kib >> 10;
	}
	if (f)
		fclose(f);
	return h;
}

/* One proper request; a recreated listener drops the connection, and the request is repeated. */
static bool
ask(void)
{
	static const unsigned char status[] = {0xca, 0x03, 0x00}, metadata[] = {0x82, 0x01, 0x00};
	unsigned before = g.nanswers;

	if (connect_request()) {
		throw_request(strcmp(g.role, "coord") == 0 ? status : metadata, 3);
		while (g.nanswers == before && g.outstanding && take_answers(ANSWER_MS))
			;
	}
	if (g.fd >= 0)
		dropped();
	return g.nanswers > before;
}

/* Check that a proper request is answered, and the process still exists. */
static bool
answers(void)
{
	uint64_t end = deadline_in_ms(SETTLE_MS);
	const char *attacked = g.addr;
	bool good;

	if (g.fd >= 0)
		dropped();
	g.addr = g.control;
	do
		good = ask();
	while (!good && clock_now_ns() < end && kill((pid_t)g.pid, 0) == 0);
	g.addr = attacked;
	return good && kill((pid_t)g.pid, 0) == 0;
}

static struct health first;

/* The asan build keeps freed memory. */
static unsigned
rss_more(void)
{
	return getenv("CORPUS_RSS_MIB") ? (unsigned)atoi(getenv("CORPUS_RSS_MIB")) : RSS_MORE_MIB;
}

static void
end_group(void)
{
	uint64_t end = deadline_in_ms(SETTLE_MS);
	struct health h;

	if (!g.group[0])
		return;
	while (g.fd >= 0 && g.outstanding && clock_now_ns() < end)
		take_answers(1000);
	if (g.outstanding)
		failed("%u requests have no answer", g.outstanding);
	if (g.fd >= 0)
		dropped();
	while (g.nheld)
		close(g.held[--g.nheld]);
	if (!answers())
		failed("a proper request is not answered");
	h = look();
	while ((h.fds > first.fds + FDS_MORE || h.threads > first.threads + THREADS_MORE) &&
	       clock_now_ns() < end) {
		poll(NULL, 0, 20);
		h = look();
	}
	if (h.fds > first.fds + FDS_MORE)
		failed("%u descriptors are open, %u were", h.fds, first.fds);
	if (h.threads > first.threads + THREADS_MORE)
		failed("%u threads run, %u did", h.threads, first.threads);
	if (h.rss_mib > first.rss_mib + rss_more())
		failed("%u MiB are in use, %u were", h.rss_mib, first.rss_mib);
	printf("# %5u inputs, %4u descriptors, %3u threads, %4u MiB: %s\n", g.ngroup, h.fds,
	       h.threads, h.rss_mib, g.group);
	fflush(stdout);
}

static void
on_group(void *arg, const char *name)
{
	(void)arg;
	end_group();
	snprintf(g.group, sizeof g.group, "%s", name);
	g.ngroup = 0;
	g.ngroups++;
}

static void
on_input(void *arg, enum input_kind kind, const char *name, const void *data, size_t nbytes)
{
	(void)arg;
	if (!note_name(name))
		return;
	if (getenv("CORPUS_NAMES"))
		printf("%s\n", name);
	g.ninputs++;
	g.ngroup++;
	if (kind == INPUT_REQUEST)
		throw_request(data, nbytes);
	else
		throw_raw(kind, data, nbytes);
}

int
main(int argc, char **argv)
{
	struct corpus_target target = {0};
	struct corpus c = {.target = &target, .group = on_group, .input = on_input};

	if (argc != 9) {
		fputs("usage: corpus coord|device|data ADDR CONTROL PID COMM EPOCH DEVICE DIR\n",
		      stderr);
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	g.role = argv[1];
	g.addr = argv[2];
	g.control = argv[3];
	g.pid = atol(argv[4]);
	g.ipc = strncmp(g.addr, "ipc://", 6) == 0;
	target.ipc = g.ipc;
	target.comm = strtoull(argv[5], NULL, 0);
	target.epoch = (uint32_t)strtoul(argv[6], NULL, 0);
	target.device = strtoull(argv[7], NULL, 16);
	snprintf(target.dir, sizeof target.dir, "%s", argv[8]);
	snprintf(g.group, sizeof g.group, "before all");
	if (!answers())
		failed("a proper request is not answered");
	first = look();
	g.group[0] = '\0';
	if (strcmp(g.role, "data") == 0) {
		corpus_frames(&c);
	} else {
		corpus_bytes(&c);
		corpus_requests(&c);
	}
	end_group();
	printf("%s: %u inputs in %u groups: %u answers, %u dropped, %u failures\n", g.role,
	       g.ninputs, g.ngroups, g.nanswers, g.ndropped, g.failures);
	return g.failures != 0 || g.ninputs < 200;
}
