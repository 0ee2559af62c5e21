/*
 * Kernels and variables by address.
 *
 * Design notes. Modules register from their constructors, on any thread: at the program's start, or
 * in dlopen. One lock covers both tables. A module that is closed stays listed, because a handle
 * may be opened again at once; no one reads its record before a launch names it.
 */
#include "cudart/registry.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"

#define MODULES_MAX 64

struct entry {
	const void *function;
	struct __gpusim_kernel *kernel;
};

static struct {
	pthread_mutex_t lock;
	struct entry *v; /* open addressing; a power of two */
	size_t n, room;
	unsigned long count;
	struct registry_data data[MODULES_MAX];
	unsigned ndata;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

static size_t
slot_of(const struct entry *v, size_t room, const void *function)
{
	size_t i = (size_t)(((uintptr_t)function >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 20);

	for (i %= room; v[i].function && v[i].function != function; i = (i + 1) % room)
		;
	return i;
}

static int
grow(void)
{
	size_t room = all.room ? all.room * 2 : 256;
	struct entry *v = alloc_zeroed(room, sizeof *v);

	if (!v)
		return 0;
	for (size_t i = 0; i < all.room; i++)
		if (all.v[i].function)
			v[slot_of(v, room, all.v[i].function)] = all.v[i];
	free(all.v);
	all.v = v;
	all.room = room;
	return 1;
}

/* Lock held. Out of memory: the kernel stays unknown, and its launch fails. */
static void
add(struct __gpusim_kernel *k)
{
	size_t i;

	if (2 * (all.n + 1) > all.room && !grow())
		return;
	i = slot_of(all.v, all.room, k->function);
	all.n += !all.v[i].function;
	all.v[i] = (struct entry){k->function, k};
	k->number = ++all.count;
}

int
__gpusim_register(struct __gpusim_kernel *k, const void *function, const char *name)
{
	pthread_mutex_lock(&all.lock);
	if (!k->number) {
		k->function = function;
		k->name = name;
		add(k);
	}
	pthread_mutex_unlock(&all.lock);
	return 1;
}

int
__gpusim_register_data(void *begin, void *end)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	unsigned i = 0;

	pthread_mutex_lock(&all.lock);
	while (i < all.ndata && all.data[i].begin != begin)
		i++;
	if (i == all.ndata && i < MODULES_MAX) {
		all.data[i] = (struct registry_data){
		    begin, end, (unsigned char *)((uintptr_t)begin / page * page),
		    (unsigned char *)(((uintptr_t)end + page - 1) / page * page)};
		all.ndata++;
		all.count++;
	}
	pthread_mutex_unlock(&all.lock);
	return 1;
}

struct __gpusim_kernel *
registry_find(const void *function)
{
	struct __gpusim_kernel *k = NULL;

	pthread_mutex_lock(&all.lock);
	if (function && all.room)
		k = all.v[slot_of(all.v, all.room, function)].kernel;
	pthread_mutex_unlock(&all.lock);
	return k;
}

unsigned long
registry_count(void)
{
	unsigned long n;

	pthread_mutex_lock(&all.lock);
	n = all.count;
	pthread_mutex_unlock(&all.lock);
	return n;
}

int
registry_data(unsigned i, struct registry_data *out)
{
	int there;

	pthread_mutex_lock(&all.lock);
	there = i < all.ndata;
	if (there)
		*out = all.data[i];
	pthread_mutex_unlock(&all.lock);
	return there;
}

/* g++: "... [with P = {..}; void (* f)(P ...) = saxpy<float>; unsigned int flags = 0]";
 * clang++: "[P = <..>, f = &saxpy<float>, flags = 0]". */
void
registry_name(const struct __gpusim_kernel *k, char *out, size_t nbytes)
{
	const char *text = k->name ? k->name : "a kernel";
	const char *at = strstr(text, "(P ...) = "), *also = strstr(text, " f = &"), *end;
	int n;

	at = at ? at + 10 : also ? also + 6 : text;
	n = (int)strlen(at);
	end = strstr(at, also ? ", flags = " : "; unsigned int flags = ");
	if (end)
		n = (int)(end - at);
	if (at != text && n && at[n - 1] == ']')
		n--;
	snprintf(out, nbytes, "%.*s", n, at);
}
