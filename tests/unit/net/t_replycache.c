/* The cache of replies: each request runs once, whatever is repeated, and memory stays bounded. */
#include <stdlib.h>
#include <string.h>

#include "net/replycache.h"
#include "tap.h"

#define CLIENT 77u

static char tag[4]; /* addresses to tell calls apart */

/* What the cache says of a request; on RUNNING and NEW *call is what it keeps. */
static enum replycache_verdict
ask(struct replycache *c, uint64_t client, uint64_t seq)
{
	void *call = &tag[0];
	const void *answer = NULL;
	size_t nbytes = 0;

	return replycache_ask(c, client, seq, &call, &answer, &nbytes);
}

/* Whether the request is answered already, with these bytes. */
static bool
answered(struct replycache *c, uint64_t client, uint64_t seq, const void *want, size_t n)
{
	void *call = NULL;
	const void *answer = NULL;
	size_t nbytes = 0;

	return replycache_ask(c, client, seq, &call, &answer, &nbytes) == REPLYCACHE_DONE &&
	       nbytes == n && (n == 0 || memcmp(answer, want, n) == 0);
}

/* Ask and answer one new request with n bytes of `data`; false when it was not new. */
static bool
serve(struct replycache *c, uint64_t client, uint64_t seq, const void *data, size_t n)
{
	if (ask(c, client, seq) != REPLYCACHE_NEW)
		return false;
	replycache_done(c, client, seq, data, n);
	return true;
}

static void
test_once(void)
{
	struct replycache *c = replycache_new();
	const void *answer = NULL;
	size_t nbytes = 0;
	void *call = &tag[1];

	ok(replycache_ask(c, CLIENT, 5, &call, &answer, &nbytes) == REPLYCACHE_NEW,
	   "a request is new");
	call = &tag[2];
	ok(replycache_ask(c, CLIENT, 5, &call, &answer, &nbytes) == REPLYCACHE_RUNNING &&
	       call == &tag[1],
	   "repeated, it is running, with the call it began with");
	ok(ask(c, CLIENT + 1, 5) == REPLYCACHE_NEW,
	   "another client's request of that number is new");
	replycache_done(c, CLIENT, 5, "five", 4);
	ok(answered(c, CLIENT, 5, "five", 4) && answered(c, CLIENT, 5, "five", 4),
	   "answered, it keeps its answer");
	ok(ask(c, CLIENT + 1, 5) == REPLYCACHE_RUNNING, "the other client's is running still");
	replycache_done(c, CLIENT, 5, "six", 3);
	replycache_done(c, CLIENT, 99, "x", 1);
	replycache_done(c, 12345, 1, "x", 1);
	ok(answered(c, CLIENT, 5, "five", 4) && ask(c, CLIENT, 99) == REPLYCACHE_NEW,
	   "an answer to nothing that runs changes nothing");
	ok(ask(c, CLIENT, 3) == REPLYCACHE_NEW, "a lower number never seen is new: it came late");
	replycache_done(c, CLIENT, 3, NULL, 0);
	ok(answered(c, CLIENT, 3, NULL, 0), "an answer may be empty");
	replycache_free(c);
	replycache_free(NULL);
}

static void
test_window(void)
{
	struct replycache *c = replycache_new();
	uint64_t seq, bad = 0;

	ok(ask(c, CLIENT, 1) == REPLYCACHE_NEW, "number 1 runs for long");
	for (seq = 2; seq < 2 + REPLYCACHE_WINDOW; seq++)
		bad += !serve(c, CLIENT, seq, &seq, sizeof seq);
	for (seq = 2; seq < 2 + REPLYCACHE_WINDOW; seq++)
		bad += !answered(c, CLIENT, seq, &seq, sizeof seq);
	ok(bad == 0, "the last %d answers are kept", REPLYCACHE_WINDOW);
	ok(serve(c, CLIENT, seq, &seq, sizeof seq) && ask(c, CLIENT, 2) == REPLYCACHE_STALE,
	   "one more, and the oldest is stale");
	for (seq = 3; seq <= 2 + REPLYCACHE_WINDOW; seq++)
		bad += !answered(c, CLIENT, seq, &seq, sizeof seq);
	ok(bad == 0, "and only the oldest");
	ok(ask(c, CLIENT, 1) == REPLYCACHE_RUNNING, "the running one holds its place");
	replycache_done(c, CLIENT, 1, "one", 3);
	ok(answered(c, CLIENT, 1, "one", 3), "and its answer is kept as the last given");
	for (seq = 5000; seq < 5000 + 3 * REPLYCACHE_WINDOW; seq++)
		bad += !serve(c, CLIENT, seq, &seq, sizeof seq);
	ok(bad == 0 && ask(c, CLIENT, 1) == REPLYCACHE_STALE &&
	       ask(c, CLIENT, 4999) == REPLYCACHE_STALE && ask(c, CLIENT, seq) == REPLYCACHE_NEW,
	   "all below the window is stale, seen or not; above it new");
	replycache_free(c);
}

static void
test_full(void)
{
	struct replycache *c = replycache_new();
	uint64_t bad = 0;

	for (uint64_t seq = 1; seq <= REPLYCACHE_WINDOW; seq++)
		bad += ask(c, CLIENT, seq) != REPLYCACHE_NEW;
	ok(bad == 0 && ask(c, CLIENT, REPLYCACHE_WINDOW + 1) == REPLYCACHE_FULL,
	   "one client runs %d requests and no more", REPLYCACHE_WINDOW);
	ok(ask(c, CLIENT, 9) == REPLYCACHE_RUNNING && ask(c, CLIENT + 1, 1) == REPLYCACHE_NEW,
	   "that hurts neither its running ones nor another client");
	replycache_done(c, CLIENT, 9, "9", 1);
	ok(ask(c, CLIENT, REPLYCACHE_WINDOW + 1) == REPLYCACHE_NEW,
	   "after an answer, what was refused is new");
	replycache_free(c);
}

static void
test_clients(void)
{
	struct replycache *c = replycache_new();
	uint64_t bad = 0;

	for (uint64_t id = 1; id <= REPLYCACHE_CLIENTS; id++)
		bad += !serve(c, id, 1, &id, sizeof id);
	for (uint64_t id = 1; id <= REPLYCACHE_CLIENTS; id++)
		bad += !answered(c, id, 1, &id, sizeof id);
	ok(bad == 0, "%d clients are remembered", REPLYCACHE_CLIENTS);
	ok(ask(c, 1, 2) == REPLYCACHE_NEW && ask(c, 5000, 1) == REPLYCACHE_NEW,
	   "one more client is served");
	/* Now 1 is busy and lately heard, 2 was quiet longest and made room for 5000. */
	bad = !answered(c, 1, 1, &(uint64_t){1}, sizeof(uint64_t));
	for (uint64_t id = 3; id <= REPLYCACHE_CLIENTS; id++)
		bad += !answered(c, id, 1, &id, sizeof id);
	ok(bad == 0, "no client but the quietest was forgotten for it");
	ok(ask(c, 2, 1) == REPLYCACHE_NEW, "what the quietest asked is new again");
	ok(ask(c, 5000, 1) == REPLYCACHE_RUNNING && ask(c, 1, 2) == REPLYCACHE_RUNNING,
	   "who has something running is not forgotten");
	replycache_free(c);

	c = replycache_new();
	bad = 0;
	for (uint64_t id = 1; id <= REPLYCACHE_CLIENTS; id++)
		bad += ask(c, id, 1) != REPLYCACHE_NEW;
	ok(bad == 0 && ask(c, 5000, 1) == REPLYCACHE_FULL,
	   "with something running of every client there is no room for another");
	replycache_done(c, 400, 1, "", 0);
	ok(ask(c, 5000, 1) == REPLYCACHE_NEW && ask(c, 399, 1) == REPLYCACHE_RUNNING,
	   "until one of them is answered");
	replycache_free(c);
}

static void
test_bytes(void)
{
	struct replycache *c = replycache_new();
	char *data = calloc(1, REPLYCACHE_ANSWER + 1);
	unsigned most = REPLYCACHE_BYTES / REPLYCACHE_ANSWER, kept = 0, stale = 0;

	memset(data, 'a', REPLYCACHE_ANSWER);
	ok(serve(c, CLIENT, 1, data, REPLYCACHE_ANSWER) &&
	       answered(c, CLIENT, 1, data, REPLYCACHE_ANSWER),
	   "an answer of %u bytes is kept", REPLYCACHE_ANSWER);
	ok(serve(c, CLIENT, 2, data, REPLYCACHE_ANSWER + 1) && ask(c, CLIENT, 2) == REPLYCACHE_NEW,
	   "one of a byte more is not: its request is new again");
	replycache_done(c, CLIENT, 2, "b", 1);
	ok(answered(c, CLIENT, 2, "b", 1), "and may be kept the next time");

	/* A quiet client's answers go first, then the oldest of the client itself. */
	serve(c, CLIENT + 1, 1, data, 1);
	for (uint64_t seq = 3; seq < 3 + 2 * most; seq++)
		serve(c, CLIENT, seq, data, REPLYCACHE_ANSWER);
	for (uint64_t seq = 3; seq < 3 + 2 * most; seq++) {
		enum replycache_verdict v = ask(c, CLIENT, seq);

		kept += v == REPLYCACHE_DONE;
		stale += v == REPLYCACHE_STALE;
	}
	if (!ok(kept < most && kept >= most - 2 && kept + stale == 2 * most,
		"answers take %u bytes at most; those dropped are stale", REPLYCACHE_BYTES))
		printf("#   %u kept, %u stale, of %u\n", kept, stale, 2 * most);
	ok(answered(c, CLIENT, 2 + 2 * most, data, REPLYCACHE_ANSWER), "the last answer is kept");
	ok(ask(c, CLIENT + 1, 1) == REPLYCACHE_NEW, "a quiet client was forgotten before");
	free(data);
	replycache_free(c);
}

/* A busy client is not forgotten for another's bytes; its answers stay, and count. */
static void
test_bytes_busy(void)
{
	struct replycache *c = replycache_new();
	char *data = calloc(1, REPLYCACHE_ANSWER);
	unsigned most = REPLYCACHE_BYTES / REPLYCACHE_ANSWER, kept = 0;

	ok(ask(c, 1, 1) == REPLYCACHE_NEW, "a client has something running");
	for (uint64_t seq = 2; seq < 2 + most / 2; seq++)
		serve(c, 1, seq, data, REPLYCACHE_ANSWER);
	for (uint64_t seq = 1; seq <= most; seq++)
		serve(c, 2, seq, data, REPLYCACHE_ANSWER);
	for (uint64_t seq = 2; seq < 2 + most / 2; seq++)
		kept += answered(c, 1, seq, data, REPLYCACHE_ANSWER);
	ok(kept == most / 2 && ask(c, 1, 1) == REPLYCACHE_RUNNING, "it keeps all it has");
	kept = 0;
	for (uint64_t seq = 1; seq <= most; seq++)
		kept += ask(c, 2, seq) == REPLYCACHE_DONE;
	if (!ok(kept >= most / 2 - 2 && kept <= most / 2, "the other has the rest"))
		printf("#   %u of %u kept\n", kept, most);
	free(data);
	replycache_free(c);
}

int
main(void)
{
	test_once();
	test_window();
	test_full();
	test_clients();
	test_bytes();
	test_bytes_busy();
	return tap_done();
}
