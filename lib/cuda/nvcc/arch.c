/*
 * __CUDA_ARCH__. It is not defined, as functions of both sides compile their host branch. But `#if __CUDA_ARCH__ >= 700`
 * around what only a device does must be true: in a source's directives that compare it, it becomes a macro that is the
 * architecture.
 */
#include <ctype.h>
#include <string.h>

#include "base/must.h"
#include "nvcc/compile.h"

static const char name[] = "__CUDA_ARCH__", ours[] = NVCC_ARCH_MACRO;
_Static_assert(sizeof name == sizeof ours, "columns stay");

/* The end of the directive that begins at s, with the lines that it continues on. */
static const char *
directive_end(const char *s, const char *end)
{
	while (s < end && (*s != '\n' || s[-1] == '\\'))
		s++;
	return s;
}

static bool
is_conditional(const char *s, const char *end)
{
	while (s < end && (*s == ' ' || *s == '\t'))
		s++;
	if (s == end || *s++ != '#')
		return false;
	while (s < end && (*s == ' ' || *s == '\t'))
		s++;
	return (end - s > 3 && memcmp(s, "if", 2) == 0 && !isalpha((unsigned char)s[2])) ||
	       (end - s > 5 && memcmp(s, "elif", 4) == 0 && !isalpha((unsigned char)s[4]));
}

/* Is there an operator beside the name at s, of [from, to)? */
static bool
is_compared(const char *from, const char *s, const char *to)
{
	const char *after = s + strlen(name);

	while (after < to && (*after == ' ' || *after == ')'))
		after++;
	while (s > from && (s[-1] == ' ' || s[-1] == '('))
		s--;
	return (after < to && strchr("<>=!", *after)) || (s > from && strchr("<>=", s[-1]));
}

bool
arch_directives(struct buf *text)
{
	char *end = text->data + text->len;
	bool changed = false;

	for (char *line = text->data; line < end; line++) {
		char *to = (char *)(uintptr_t)directive_end(line, end), *at = line;
		bool compares = false;

		if (is_conditional(line, to)) {
			while ((at = memmem(at, (size_t)(to - at), name, strlen(name))))
				compares = is_compared(line, at, to) || compares, at++;
			for (at = line;
			     compares && (at = memmem(at, (size_t)(to - at), name, strlen(name)));)
				memcpy(at, ours, strlen(ours));
			changed = changed || compares;
		}
		line = to;
	}
	return changed;
}
