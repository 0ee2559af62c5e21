#include "nn/classes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "nn/decimal.h"

enum classes_status
classes_id(struct classes *c, const char *text, size_t len, uint8_t *id)
{
	for (uint32_t i = 0; i < c->n; i++)
		if (strlen(c->text[i]) == len && memcmp(c->text[i], text, len) == 0) {
			*id = (uint8_t)i;
			return CLASSES_OK;
		}
	if (len > CLASSES_MAX_TEXT)
		return CLASSES_LONG;
	if (c->n == CLASSES_MAX)
		return CLASSES_FULL;
	*id = (uint8_t)c->n;
	c->text[c->n++] = must_strndup(text, len);
	return CLASSES_OK;
}

struct key {
	const char *text; /* NULL: sorted by value */
	int64_t value;
	uint32_t id;
};

static int
compare(const void *a, const void *b)
{
	const struct key *x = a, *y = b;

	if (x->text)
		return strcmp(x->text, y->text);
	return (x->value > y->value) - (x->value < y->value);
}

/* Labels in the order of the keys; equal keys are one class. */
static void
number(struct classes *c, struct key *key)
{
	qsort(key, c->n, sizeof *key, compare);
	c->nlabels = 0;
	for (uint32_t i = 0; i < c->n; i++) {
		c->nlabels += i == 0 || compare(&key[i - 1], &key[i]) != 0;
		c->label[key[i].id] = (uint8_t)(c->nlabels - 1);
	}
}

static void
name_labels(struct classes *c, const struct key *key)
{
	c->name = must_alloc(c->nlabels, sizeof *c->name);
	for (uint32_t i = 0; i < c->n; i++) {
		char **name = &c->name[c->label[key[i].id]], digits[24];

		if (*name)
			continue;
		snprintf(digits, sizeof digits, "%lld", (long long)key[i].value);
		*name = must_strdup(key[i].text ? key[i].text : digits);
	}
}

enum classes_status
classes_sort(struct classes *c)
{
	struct key key[CLASSES_MAX];
	uint32_t nwhole = 0, nnumbers = 0;
	float f;

	for (uint32_t i = 0; i < c->n; i++) {
		size_t len = strlen(c->text[i]);

		key[i] = (struct key){.id = i};
		nwhole += decimal_whole(c->text[i], len, &key[i].value);
		nnumbers += decimal_f32(c->text[i], len, &f) == DECIMAL_OK;
	}
	if (nnumbers == c->n && nwhole < c->n)
		return CLASSES_UNCOUNTABLE;
	c->name_is_text = nwhole < c->n;
	for (uint32_t i = 0; i < c->n && c->name_is_text; i++)
		key[i].text = c->text[i];
	number(c, key);
	if (!c->name_is_text && key[0].value == 0 && key[c->n - 1].value == c->nlabels - 1)
		return CLASSES_OK;
	name_labels(c, key);
	return CLASSES_OK;
}

void
classes_fini(struct classes *c)
{
	for (uint32_t i = 0; i < c->n; i++)
		free(c->text[i]);
	for (uint32_t i = 0; c->name && i < c->nlabels; i++)
		free(c->name[i]);
	free(c->name);
	*c = (struct classes){0};
}
