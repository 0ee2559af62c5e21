/* Lists of words. */
#include "nvcc/options.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

/* Takes over the word; NULL: out of memory. */
static bool
take(struct words *w, char *word)
{
	char **v = word ? alloc_resize(w->v, w->n + 2, sizeof *v) : NULL;

	if (!v) {
		free(word);
		return false;
	}
	w->v = v;
	w->v[w->n++] = word;
	w->v[w->n] = NULL;
	return true;
}

bool
words_addf(struct words *w, const char *fmt, ...)
{
	char *word = NULL;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&word, fmt, ap);
	va_end(ap);
	return n >= 0 && take(w, word);
}

bool
words_add(struct words *w, const char *word)
{
	return take(w, strdup(word));
}

bool
words_add_all(struct words *w, const struct words *more)
{
	for (size_t i = 0; i < more->n; i++)
		if (!words_add(w, more->v[i]))
			return false;
	return true;
}

bool
words_add_parts(struct words *w, const char *text)
{
	char *part = strdup(text);
	size_t n = 0;
	bool good = part != NULL;

	for (const char *s = text; good; s++) {
		if (*s == '\\' && s[1]) {
			part[n++] = *++s;
		} else if (*s && !strchr(", \t\n", *s)) {
			part[n++] = *s;
		} else {
			part[n] = '\0';
			good = n == 0 || words_add(w, part);
			n = 0;
			if (!*s)
				break;
		}
	}
	free(part);
	return good;
}

void
words_fini(struct words *w)
{
	for (size_t i = 0; i < w->n; i++)
		free(w->v[i]);
	free(w->v);
	*w = (struct words){0};
}
