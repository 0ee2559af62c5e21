/* words.h - a list of words that ends with NULL, for a command line. */
#ifndef NVCC_WORDS_H
#define NVCC_WORDS_H

#include <stddef.h>

/* Initialise with {0}; words_fini releases. v is NULL while n is 0. */
struct words {
	char **v;
	size_t n;
};

/* Append a copy of the formatted word; of each word, until NULL; of all words of a list. */
void words_addf(struct words *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void words_add_these(struct words *w, const char *const *word);
void words_add_all(struct words *w, const struct words *more);
#define words_add(w, ...) words_add_these(w, (const char *const[]){__VA_ARGS__, NULL})

/* Append the parts of text between commas and blanks; a backslash keeps the next character. */
void words_add_parts(struct words *w, const char *text);

void words_fini(struct words *w);

#endif
