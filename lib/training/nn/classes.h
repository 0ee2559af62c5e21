/*
 * classes.h - the classes of a table or a folder: texts, numbered first in order of arrival, then
 * in sorted order.
 */
#ifndef NN_CLASSES_H
#define NN_CLASSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CLASSES_MAX	 256 /* a label is a byte */
#define CLASSES_MAX_TEXT 128 /* bytes of a class's text */

/* Initialise with {0}; classes_fini releases. */
struct classes {
	uint32_t n;
	char *text[CLASSES_MAX];    /* by id, terminated */
	uint8_t label[CLASSES_MAX]; /* of each id, by classes_sort */
	uint32_t nlabels;	    /* by classes_sort */
	bool name_is_text;	    /* not all texts are numbers; by classes_sort */
	char **name;		    /* [nlabels], or NULL: numbers from 0; by classes_sort */
};

enum classes_status {
	CLASSES_OK,
	CLASSES_FULL,	     /* this would be the 257th class */
	CLASSES_LONG,	     /* more than CLASSES_MAX_TEXT bytes */
	CLASSES_UNCOUNTABLE, /* numbers, but not whole ones */
};

/* The id of a text; a new text gets the next of 0, 1, ... */
enum classes_status classes_id(struct classes *c, const char *text, size_t len, uint8_t *id);

/*
 * classes_sort - give each id its label and each label its name.
 *
 * Where all texts are whole numbers they are sorted as such, and "1" and "1.0" are one class; if they
 * are 0 to k-1 there are no names. Otherwise they are sorted by their bytes. The caller may take
 * the names and set the pointer to NULL.
 */
enum classes_status classes_sort(struct classes *c);

void classes_fini(struct classes *c);

#endif
