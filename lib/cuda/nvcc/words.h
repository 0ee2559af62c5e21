/* words.h - a list of words that ends with NULL, for a command line. */
#ifndef NVCC_WORDS_H
#define NVCC_WORDS_H

#include <stdbool.h>
#include <stddef.h>

/* Initialise with {0}; words_fini releases. v is NULL while n is 0. */
struct words {
	char **v;
	size_t n;
};

/* Append a copy of the formatted word; false: out of memory. */
bool words_addf(struct words *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool words_add(struct words *w, const char *word);
bool words_add_all(struct words *w, const struct words *more);

/* Append the parts of text between commas and blanks; a backslash keeps the next character. */
bool words_add_parts(struct words *w, const char *text);

void words_fini(struct words *w);

#endif
