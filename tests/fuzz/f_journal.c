/* Fuzz the journal of a store. An accepted journal is within its bounds and reads the same again up
 * to its valid end; a rejected one has a reason that names the file. */
#include <stdlib.h>
#include <string.h>

#include "store/journal.h"
#include "wire/crc32c.h"

#include "fuzz.h"

struct seen {
	size_t n, nbytes;
};

static bool
on_change(void *arg, const struct store_change *c)
{
	struct seen *seen = arg;
	volatile uint8_t sum = 0;

	require(strlen(c->key) >= 1 && strlen(c->key) <= STORE_KEY_MAX);
	require(c->nbytes <= STORE_VALUE_MAX && (c->value || c->nbytes == 0));
	for (size_t i = 0; i < c->nbytes; i++)
		sum = (uint8_t)(sum + ((const uint8_t *)c->value)[i]);
	seen->n++;
	seen->nbytes += strlen(c->key) + c->nbytes;
	return true;
}

static void
look(const void *data, size_t size)
{
	struct seen seen = {0}, again = {0};
	struct journal j;
	struct err err = {0};
	size_t good = 0, same = 0;
	enum rc rc = journal_read(data, size, "fuzz", on_change, &seen, &j, &good, &err);

	if (rc != RC_OK) {
		require(rc == RC_BADDATA && strncmp(err.text, "fuzz: ", 6) == 0);
		return;
	}
	require(good <= size && j.base <= good && good >= JOURNAL_HEADER);
	require(journal_read(data, good, "fuzz", on_change, &again, &j, &same, &err) == RC_OK);
	require(same == good && seen.n == again.n && seen.nbytes == again.nbytes);
}

static void
set32(uint8_t *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> 8 * i);
}

static uint32_t
crc_of(const uint8_t *a, size_t na, const uint8_t *b, size_t nb)
{
	uint8_t v[64];

	memcpy(v, a, na);
	memcpy(v + na, b, nb);
	return crc32c(v, na + nb);
}

/* Set checksums, numbers and lengths of header and batches, which no mutation guesses. */
static void
mend(uint8_t *p, size_t size)
{
	static const uint8_t start[12] = "gpusim-J\1";
	uint64_t seq = 0;

	memcpy(p, start, sizeof start);
	memset(p + 25, 0, 7);
	p[24] |= JOURNAL_HEADER; /* base: somewhere near the start */
	set32(p + 12, crc_of(p, 12, p + 16, 16));
	for (size_t at = JOURNAL_HEADER; size - at >= JOURNAL_BATCH;) {
		size_t rest = size - at - JOURNAL_BATCH, n = p[at + 16] < rest ? p[at + 16] : rest;

		memcpy(p + at, "gBat", 4);
		memset(p + at + 5, 0, 3);
		memset(p + at + 8, 0, 8);
		p[at + 8] = (uint8_t)++seq;
		p[at + 9] = (uint8_t)(seq >> 8);
		set32(p + at + 16, (uint32_t)n);
		set32(p + at + 20, crc32c(p + at + JOURNAL_BATCH, n));
		set32(p + at + 24, crc_of(p + 16, 8, p + at, 24));
		memset(p + at + 28, 0, 4);
		at += JOURNAL_BATCH + n;
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy;

	look(data, size);
	if (size < JOURNAL_HEADER)
		return 0;
	copy = malloc(size);
	require(copy != NULL);
	memcpy(copy, data, size);
	mend(copy, size);
	look(copy, size);
	free(copy);
	return 0;
}
