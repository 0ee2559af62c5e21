/* visible.h - CUDA_VISIBLE_DEVICES: the devices that a program sees, in order. Pure. */
#ifndef CUDART_VISIBLE_H
#define CUDART_VISIBLE_H

#include <stddef.h>

#define VISIBLE_UUID 41 /* "GPU-" and 36 characters, with the NUL */

/*
 * visible_parse - a list of devices as CUDA reads it.
 *
 *	list	numbers, or prefixes of UUIDs that match one device each, with commas; NULL: all devices
 *	uuid of each of the n devices
 *	index	[out] n places: the devices that are visible, in order
 *
 * Returns their count. An entry that names no device ends the list, and so does an empty entry; a
 * list that names a device twice makes none visible.
 */
size_t visible_parse(const char *list, const char (*uuid)[VISIBLE_UUID], size_t n, size_t *index);

#endif
