/*
 * fuzz.h - shared by the fuzzers.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void
require(int cond)
{
	if (!cond)
		abort();
}

/* The input as a text, malloc'ed; NULL: no memory. A NUL inside ends it early. */
static inline char *
text_of(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	if (!text)
		return NULL;
	if (size)
		memcpy(text, data, size);
	text[size] = '\0';
	return text;
}

/* Read every byte, so that the address sanitizer reports a missing one. */
static inline void
read_all(const void *bytes, size_t nbytes)
{
	const volatile uint8_t *p = bytes;
	uint8_t sum = 0;

	for (size_t i = 0; i < nbytes; i++)
		sum = (uint8_t)(sum + p[i]);
}

#endif
