#include "base/nearest.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

enum { NEAREST_MAX = 64 }; /* letters of a word or name; longer ones match nothing */

static unsigned
least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

/* Rows of the table are of letters of a; of three rows is all that a step looks at. */
static unsigned
distance(const char *a, size_t na, const char *b, size_t nb)
{
	unsigned rows[3][NEAREST_MAX + 1];

	for (size_t j = 0; j <= nb; j++)
		rows[0][j] = (unsigned)j;
	for (size_t i = 1; i <= na; i++) {
		unsigned *row = rows[i % 3], *above = rows[(i + 2) % 3],
			 *higher = rows[(i + 1) % 3];
		int x = tolower((unsigned char)a[i - 1]);

		row[0] = (unsigned)i;
		for (size_t j = 1; j <= nb; j++) {
			int y = tolower((unsigned char)b[j - 1]);

			row[j] = least(above[j - 1] + (x != y), least(above[j], row[j - 1]) + 1);
			if (i > 1 && j > 1 && x == tolower((unsigned char)b[j - 2]) &&
			    y == tolower((unsigned char)a[i - 2]))
				row[j] = least(row[j], higher[j - 2] + 1);
		}
	}
	return rows[na % 3][nb];
}

struct nearest
nearest_begin(const char *word)
{
	size_t len = strlen(word);

	return (struct nearest){.word = word, .steps = len <= 3 ? 2 : len <= 7 ? 3 : 4};
}

void
nearest_offer(struct nearest *n, const char *name)
{
	size_t nword = strlen(n->word), nname = name ? strlen(name) : 0;
	unsigned steps;

	if (!nname || !nword || nword > NEAREST_MAX || nname > NEAREST_MAX)
		return;
	steps = distance(n->word, nword, name, nname);
	if (nword >= 3 && nname > nword && strncasecmp(n->word, name, nword) == 0)
		steps = 1;
	/* Not every letter may be another. */
	if (steps < n->steps && steps < nword && steps < nname) {
		n->steps = steps;
		n->name = name;
	}
}

bool
nearest_same(const char *a, const char *b)
{
	do {
		a += strspn(a, "-_");
		b += strspn(b, "-_");
		if (tolower((unsigned char)*a) != tolower((unsigned char)*b++))
			return false;
	} while (*a++);
	return true;
}

const char *
nearest(const char *word, const char *const *names, size_t n)
{
	struct nearest found = nearest_begin(word);

	for (size_t i = 0; i < n; i++)
		nearest_offer(&found, names[i]);
	return found.name;
}
