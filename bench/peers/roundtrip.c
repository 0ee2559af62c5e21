/*
 * roundtrip [CALLS] - one nng REQ/REP round trip of 8 bytes between two processes over ipc: prints
 * the median in microseconds.
 */
#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>
#include <nng/protocol/reqrep0/req.h>

#include "measure.h"
#include "ranks.h"

#define TIMEOUT_MS 5000

static void
must(int rv, const char *what)
{
	if (rv) {
		fprintf(stderr, "roundtrip: %s: %s\n", what, nng_strerror(rv));
		exit(2);
	}
}

/* Answer messages until one says to end, or none has come for a while. */
static void
serve(nng_socket s, const char *url)
{
	char buf[8];
	size_t n;

	must(nng_listen(s, url, NULL, 0), "listen");
	for (n = sizeof buf; nng_recv(s, buf, &n, 0) == 0 && buf[0] != 'q'; n = sizeof buf)
		must(nng_send(s, buf, n, 0), "send");
}

static void
ask(nng_socket s, char what)
{
	char buf[8] = {what};
	size_t n = sizeof buf;

	must(nng_send(s, buf, n, 0), "send");
	must(nng_recv(s, buf, &n, 0), "receive");
}

static void
measure_calls(nng_socket s, const char *url, int ncalls)
{
	double *t = calloc((size_t)ncalls, sizeof *t), end = measure_now() + 5;

	if (!t)
		exit(2);
	while (nng_dial(s, url, NULL, 0) != 0)
		if (measure_now() > end)
			must(NNG_ETIMEDOUT, "dial");
	for (int i = 0; i < ncalls / 10; i++)
		ask(s, 'w');
	for (int i = 0; i < ncalls; i++) {
		double begin = measure_now();

		ask(s, 'x');
		t[i] = measure_now() - begin;
	}
	nng_send(s, "q", 2, 0);
	qsort(t, (size_t)ncalls, sizeof *t, measure_compare);
	printf("%.2f\n", t[ncalls / 2] * 1e6);
	free(t);
}

int
main(int argc, char **argv)
{
	int ncalls = argc > 1 ? atoi(argv[1]) : 2000, status;
	const char *tmp = getenv("TMPDIR");
	char url[108]; /* what a socket's path may have */
	nng_socket s;
	int rank;

	snprintf(url, sizeof url, "ipc://%s/roundtrip.%d", tmp ? tmp : "/tmp", (int)getpid());
	rank = ranks_fork(2, &status);
	if (rank < 0) {
		unlink(url + strlen("ipc://"));
		return status;
	}
	must(rank ? nng_req0_open(&s) : nng_rep0_open(&s), "open");
	must(nng_setopt_ms(s, NNG_OPT_RECVTIMEO, TIMEOUT_MS), "receive timeout");
	must(nng_setopt_ms(s, NNG_OPT_SENDTIMEO, TIMEOUT_MS), "send timeout");
	if (rank)
		measure_calls(s, url, ncalls > 0 ? ncalls : 1);
	else
		serve(s, url);
	fflush(stdout);
	if (rank)
		nng_close(s); /* flushes the farewell */
	_exit(0);
}
