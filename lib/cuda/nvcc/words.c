/* Lists of words. */
#include "nvcc/options.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"

void
words_addf(struct words *w, const char *fmt, ...)
{
	va_list ap;

	w->v = must_resize(w->v, w->n + 2, sizeof *w->v);
	va_start(ap, fmt);
	must(vasprintf(&w->v[w->n++], fmt, ap) >= 0);
	va_end(ap);
	w->v[w->n] = NULL;
}

void
words_add_these(struct words *w, const char *const *word)
{
	for (; *word; word++)
		words_addf(w, "%s", *word);
}

void
words_add_all(struct words *w, const struct words *more)
{
	if (more->n)
		words_add_these(w, (const char *const *)more->v);
}

void
words_add_parts(struct words *w, const char *text)
{
	char *part = must_strdup(text);
	size_t n = 0;
	char quote = '\0';

	for (const char *s = text;; s++) {
		if (*s == '\\' && s[1]) {
			part[n++] = *++s;
		} else if (*s && *s == quote) {
			quote = '\0';
		} else if (!quote && (*s == '"' || *s == '\'')) {
			quote = *s;
		} else if (*s && (quote || !strchr(", \t\n", *s))) {
			part[n++] = *s;
		} else {
			part[n] = '\0';
			if (n)
				words_add(w, part);
			n = 0;
			if (!*s)
				break;
		}
	}
	free(part);
}

void
words_fini(struct words *w)
{
	for (size_t i = 0; i < w->n; i++)
		free(w->v[i]);
	free(w->v);
	*w = (struct words){0};
}
