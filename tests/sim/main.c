/*
 * sim - play seeded worlds of one coordinator, devices and clients, and check their invariants.
 *
 *	sim [-n SEEDS] [-s FIRST] [-j JOBS] [-d | -v]
 *
 * TAP on stdout; for a seed that fails, with the command that plays it again and prints all events.
 * -d: a line with the digest of all worlds instead; it is the same while no event, id or code in
 * them differs. Exit: 0 success, 1 failure, 2 usage.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim.h"

#define MAX_JOBS 256

struct totals {
	uint64_t worlds, bad, events, checked, succeeded, failed, recovered, digest;
};

static volatile uint64_t playing; /* seed */
static const char *program;

/* A machine has crashed: report the seed. */
static void
on_crash(int sig)
{
	char line[256];
	int n =
	    snprintf(line, sizeof line,
		     "# seed %" PRIu64 ": crashed by signal %d\n#   again: %s -s %" PRIu64 " -v\n",
		     playing, sig, program, playing);

	if (n > 0 && write(STDOUT_FILENO, line, (size_t)n) == n)
		_exit(1);
	_exit(1);
}

static void
play(uint64_t seed, int verbose, const char *self, struct totals *t)
{
	static struct world w;
	bool good;

	playing = seed;
	good = world_play(&w, seed, verbose);

	t->worlds++;
	t->events += w.events;
	t->checked += w.checked;
	t->succeeded += w.succeeded;
	t->failed += w.failed;
	t->recovered += w.recovered;
	t->digest += w.digest.h; /* in any order: jobs take turns */
	if (!good) {
		t->bad++;
		printf("# seed %" PRIu64 ": %s\n#   again: %s -s %" PRIu64 " -v\n", seed, w.wrong,
		       self, seed);
		fflush(stdout);
	}
	world_free(&w);
}

/* One of the processes: every jobs-th seed. Writes its totals to fd. */
static void
worker(uint64_t first, uint64_t n, unsigned job, unsigned jobs, const char *self, int fd)
{
	struct totals t = {0};

	for (uint64_t i = job; i < n; i += jobs)
		play(first + i, 0, self, &t);
	if (write(fd, &t, sizeof t) != sizeof t)
		_exit(1);
	_exit(0);
}

static bool
add(struct totals *sum, int fd)
{
	struct totals t;

	if (read(fd, &t, sizeof t) != sizeof t)
		return false;
	sum->worlds += t.worlds;
	sum->bad += t.bad;
	sum->events += t.events;
	sum->checked += t.checked;
	sum->succeeded += t.succeeded;
	sum->failed += t.failed;
	sum->recovered += t.recovered;
	sum->digest += t.digest;
	return true;
}

static bool
play_all(uint64_t first, uint64_t n, unsigned jobs, const char *self, struct totals *sum)
{
	int fd[2];
	bool good = true;

	if (pipe(fd) != 0)
		return false;
	for (unsigned j = 0; j < jobs; j++) {
		pid_t pid = fork();

		if (pid == 0)
			worker(first, n, j, jobs, self, fd[1]);
		if (pid < 0)
			good = false;
	}
	close(fd[1]);
	while (add(sum, fd[0]))
		;
	close(fd[0]);
	while (wait(NULL) > 0 || errno == EINTR)
		;
	return good && sum->worlds == n;
}

static uint64_t
number(const char *text)
{
	char *end;
	unsigned long long v = strtoull(text, &end, 10);

	if (*end || end == text) {
		fprintf(stderr, "sim: '%s' is not a number\n", text);
		exit(2);
	}
	return v;
}

int
main(int argc, char **argv)
{
	const char *seeds = getenv("SIM_SEEDS");
	uint64_t n = seeds && *seeds ? number(seeds) : 10000, first = 1;
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned jobs = cores > 0 && cores < MAX_JOBS ? (unsigned)cores : 1;
	struct totals sum = {0};
	bool verbose = false, digest = false, whole;
	int opt;

	while ((opt = getopt(argc, argv, "n:s:j:dv")) != -1)
		switch (opt) {
		case 'n':
			n = number(optarg);
			break;
		case 's':
			first = number(optarg);
			break;
		case 'j':
			jobs = (unsigned)number(optarg);
			break;
		case 'd':
			digest = true;
			break;
		case 'v':
			verbose = true;
			break;
		default:
			fprintf(stderr, "usage: sim [-n SEEDS] [-s FIRST] [-j JOBS] [-d | -v]\n");
			return 2;
		}
	program = argv[0];
	signal(SIGSEGV, on_crash);
	signal(SIGABRT, on_crash);
	signal(SIGBUS, on_crash);
	if (verbose) {
		play(first, 1, argv[0], &sum);
		whole = true;
	} else {
		whole = play_all(first, n, jobs == 0 || jobs > MAX_JOBS ? 1 : jobs, argv[0], &sum);
	}
	if (digest && whole && !sum.bad) {
		printf("%016" PRIx64 " %" PRIu64 " worlds from seed %" PRIu64 "\n", sum.digest, n,
		       first);
		return 0;
	}
	printf("%sok 1 - %" PRIu64 " worlds, %" PRIu64 " of them wrong%s\n",
	       sum.bad || !whole ? "not " : "", sum.worlds, sum.bad,
	       whole ? "" : "; a process has died");
	printf("# %" PRIu64 " events, %" PRIu64 " requests succeeded, %" PRIu64 " failed; %" PRIu64
	       " results checked, %" PRIu64 " operations recovered\n",
	       sum.events, sum.succeeded, sum.failed, sum.checked, sum.recovered);
	printf("1..1\n");
	return sum.bad || !whole;
}
