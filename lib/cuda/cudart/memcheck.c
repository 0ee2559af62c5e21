/*
 * Findings about a program's use of memory: gpuctl run --nccl --memcheck.
 *
 * Design notes. Each allocation has pages of its own, and is filled with a pattern when it is made. The pattern is a
 * signalling NaN, so what is computed from it is the same NaN, but quiet. Bytes that leave the device are searched
 * for both; the bytes behind an allocation must still be the pattern after a kernel. Freed memory is kept, unmapped,
 * up to a quarter of the device. Findings are appended to the file of GPUSIM_MEMCHECK, one line each, by program and
 * helpers alike. A lock guards what is kept and what was reported; it is outside of no other.
 */
#include "cudart/memcheck.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/env.h"
#include "base/json.h"
#include "cudart/cuda_impl.h"

#define PATTERN	 UINT32_C(0xffa5c3e1)
#define COMPUTED UINT32_C(0xffe5c3e1) /* the pattern after arithmetic */
#define PIECE	 (64u << 10)
#define SITES	 1024 /* findings, and sites of leaks, told apart */
#define MAPPED	 65536
#define FRAMES	 24

struct kept {
	struct kept *next;
	struct memory m;
	const void *freed; /* site */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct kept *kept;
static uint64_t kept_bytes;
static uint64_t reported[SITES];

/* In a helper. */
static struct memory mapped[MAPPED];
static size_t nmapped;

bool
memcheck_on(void)
{
	static atomic_int known; /* 1: no, 2: yes */

	if (!atomic_load_explicit(&known, memory_order_relaxed))
		atomic_store(&known, env_is_set("GPUSIM_MEMCHECK") ? 2 : 1);
	return atomic_load_explicit(&known, memory_order_relaxed) == 2;
}

/* ------------------------------------------------------------------ sites */

static bool
is_ours(const char *object)
{
	return strstr(object, "libcudart.so") || strstr(object, "libnccl.so");
}

const void *
memcheck_site(void)
{
	void *frame[FRAMES];
	Dl_info in;
	int n = memcheck_on() ? backtrace(frame, FRAMES) : 0;

	for (int i = 1; i < n; i++)
		if (dladdr(frame[i], &in) && in.dli_fname && !is_ours(in.dli_fname))
			return strstr(in.dli_fname, "libc.so") ? NULL : frame[i];
	return NULL;
}

/* By addr2line, if it is installed: "file:line", or else the function. Calls in our headers are inlined, and
 * skipped. */
static bool
ask_addr2line(const char *object, size_t off, char *out, size_t size)
{
	char command[600], function[200] = "", place[200] = "";
	FILE *f;

	snprintf(command, sizeof command, "addr2line -Cfis -e '%s' 0x%zx 2>/dev/null", object, off);
	f = strchr(object, '\'') ? NULL : popen(command, "re");
	while (f && fgets(function, sizeof function, f) && fgets(place, sizeof place, f) &&
	       (strncmp(place, "cuda_runtime", 12) == 0 || strncmp(place, "gpusim_cuda", 11) == 0))
		;
	if (f)
		pclose(f);
	function[strcspn(function, "\n")] = '\0';
	place[strcspn(place, " \n")] = '\0';
	snprintf(out, size, "%s", *place && *place != '?' ? place : function);
	return *out && *out != '?';
}

/* "file:line", "function", "function+0x12" or "object+0x1234". */
static void
name_site(const void *site, char *out, size_t size)
{
	const char *at = (const char *)site - 1; /* within the call */
	const char *object;
	size_t off;
	Dl_info in;

	*out = '\0';
	if (!site || !dladdr(at, &in) || !in.dli_fname)
		return;
	off = (size_t)(at - (const char *)in.dli_fbase);
	object = strrchr(in.dli_fname, '/') ? strrchr(in.dli_fname, '/') + 1 : in.dli_fname;
	if (ask_addr2line(in.dli_fname, off, out, size))
		return;
	if (in.dli_sname)
		snprintf(out, size, "%s+0x%zx", in.dli_sname,
			 (size_t)(at - (const char *)in.dli_saddr));
	else
		snprintf(out, size, "%s+0x%zx", object, off);
}

/* ------------------------------------------------------------------ findings */

/* True: it is new. */
static bool
is_new(const char *kind, const void *call, const void *allocated)
{
	uint64_t key = ((uint64_t)(uintptr_t)call * 31 + (uint64_t)(uintptr_t)allocated) * 31 +
		       (uint64_t)kind[0] * 7 + (uint64_t)kind[strlen(kind) - 1];
	bool new = true;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < SITES; i++) {
		uint64_t *r = &reported[(key + i) % SITES];

		new = *r != key;
		if (!new || !*r) {
			*r = key;
			break;
		}
	}
	pthread_mutex_unlock(&lock);
	return new;
}

/* One write, because ranks and helpers share the file. */
static void
append(const char *kind, const char *text, const char *call, const char *allocated)
{
	const char *path = getenv("GPUSIM_MEMCHECK");
	char *line = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&line, &size);
	int fd = *path == '/' ? open(path, O_WRONLY | O_APPEND | O_CLOEXEC) : -1;

	if (f) {
		struct json j = {f, false};

		json_put(&j, "{kind:%s pid:%d message:%s call:%s allocated:%s}\n", kind,
			 (int)getpid(), text, *call ? call : NULL, *allocated ? allocated : NULL);
		fclose(f);
		if (fd >= 0)
			(void)!write(fd, line, size);
	}
	if (fd >= 0)
		close(fd);
	free(line);
}

void
memcheck_report(const char *kind, const void *call, const void *allocated, const char *fmt, ...)
{
	char text[500], at[300], from[300];
	va_list ap;

	call = call ? call : memcheck_site();
	if (!memcheck_on() || !is_new(kind, call, allocated))
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	name_site(call == allocated ? NULL : call, at, sizeof at);
	name_site(allocated, from, sizeof from);
	fprintf(stderr, "memcheck: %s: %s%s%s%s%s\n", kind, text, *at ? ", at " : "", at,
		*from ? ", allocated at " : "", from);
	append(kind, text, at, from);
}

/* ------------------------------------------------------------------ calls */

static const struct kept *
find_kept(const void *p)
{
	const struct kept *k = kept;

	while (k && (uintptr_t)p - (uintptr_t)k->m.base >= k->m.nbytes)
		k = k->next;
	return k;
}

void
memcheck_range(const char *what, const void *p, size_t nbytes)
{
	const struct kept *k;
	struct memory m;
	uint64_t into;

	if (!memcheck_on() || nbytes == 0)
		return;
	if (memory_find_late(p, 1, &m, NULL) != cudaSuccess || m.leaving) {
		pthread_mutex_lock(&lock);
		k = find_kept(p);
		pthread_mutex_unlock(&lock);
		if (k || m.leaving)
			memcheck_report("use-after-free", NULL, k ? k->m.site : m.site,
					"%s: %p is in %" PRIu64 " freed bytes", what, p,
					k ? k->m.asked : m.asked);
		else
			memcheck_report("invalid-pointer", NULL, NULL, "%s: %p is in no allocation",
					what, p);
		return;
	}
	into = (uint64_t)((const unsigned char *)p - m.base);
	if (m.kind == MEMORY_PAGEABLE || m.kind == MEMORY_REGISTERED || into + nbytes <= m.asked)
		return;
	memory_overrun(m.base);
	memcheck_report("out-of-bounds", NULL, m.site,
			"%s: %zu bytes at offset %" PRIu64 " of a %" PRIu64
			"-byte allocation, %" PRIu64 " too many",
			what, nbytes, into, m.asked, into + nbytes - m.asked);
}

/* Search for the pattern in words of the allocation; what is smaller than a word is missed. */
void
memcheck_written(const char *what, const void *call, const void *p, size_t nbytes)
{
	uint32_t *word = memcheck_on() ? malloc(PIECE) : NULL;
	uint64_t fresh = 0, computed = 0, first = UINT64_MAX, addr = 0, into;
	struct memory m;

	if (!word || memory_find_late(p, nbytes, &m, &addr) != cudaSuccess ||
	    (m.kind != MEMORY_DEVICE && m.kind != MEMORY_MANAGED)) {
		free(word);
		return;
	}
	into = (uint64_t)((const unsigned char *)p - m.base);
	nbytes = into + nbytes > m.asked ? m.asked - (into < m.asked ? into : m.asked) : nbytes;
	for (size_t done = (4 - into % 4) % 4, n; done + 4 <= nbytes; done += n) {
		n = nbytes - done < PIECE ? (nbytes - done) / 4 * 4 : PIECE;
		if (gpusim_memcpy_d2h(cuda_connection(), word,
				      cuda_device_at(m.ordinal)->space->device,
				      (struct gpusim_addr){addr + done}, n) != GPUSIM_OK)
			break;
		for (size_t i = 0; i < n / 4; i++) {
			fresh += word[i] == PATTERN;
			computed += word[i] == COMPUTED;
			if (first == UINT64_MAX && (word[i] == PATTERN || word[i] == COMPUTED))
				first = into + done + 4 * i;
		}
	}
	free(word);
	if (fresh)
		memcheck_report("uninitialised", call, m.site,
				"%s: %" PRIu64 " bytes of a %" PRIu64
				"-byte allocation, from offset %" PRIu64 " on, were never written",
				what, 4 * fresh, m.asked, first);
	else if (computed)
		memcheck_report("uninitialised", call, m.site,
				"%s: %" PRIu64 " numbers of a %" PRIu64
				"-byte allocation, from offset %" PRIu64
				" on, were computed from memory that was never written",
				what, computed, m.asked, first);
}

struct sent {
	char what[64];
	const void *call, *p;
	size_t nbytes;
};

static enum rc
look_at_sent(void *arg, struct err *err)
{
	struct sent *s = arg;

	(void)err;
	memcheck_written(s->what, s->call, s->p, s->nbytes);
	return RC_OK;
}

void
gpusim_cuda_memcheck(const char *call, const char *which, const void *p, size_t nbytes,
		     cudaStream_t stream, bool reads)
{
	struct CUstream_st *s;
	struct sent *sent;
	char what[64];

	if (!memcheck_on())
		return;
	snprintf(what, sizeof what, "%s of nccl%s", which, call);
	memcheck_range(what, p, nbytes);
	if (!reads || gpusim_cuda_is_capturing(stream) || stream_of(stream, &s) != cudaSuccess ||
	    !(sent = malloc(sizeof *sent)))
		return;
	*sent = (struct sent){.call = memcheck_site(), .p = p, .nbytes = nbytes};
	memcpy(sent->what, what, sizeof what);
	(void)work_enqueue(s, look_at_sent, work_free, sent);
}

/* ------------------------------------------------------------------ allocations */

void
memcheck_fill(const struct memory *m)
{
	uint32_t *word = memcheck_on() && !m->own ? malloc(PIECE) : NULL;

	if (!word)
		return;
	for (size_t i = 0; i < PIECE / 4; i++)
		word[i] = PATTERN;
	for (uint64_t done = 0; done < m->nbytes; done += PIECE)
		gpusim_memcpy_h2d(cuda_connection(), cuda_device_at(m->ordinal)->space->device,
				  (struct gpusim_addr){m->addr + done}, word,
				  m->nbytes - done < PIECE ? m->nbytes - done : PIECE);
	free(word);
}

void
memcheck_bad_free(const void *p)
{
	const struct kept *k;
	char where[300] = "";

	if (!memcheck_on())
		return;
	pthread_mutex_lock(&lock);
	k = find_kept(p);
	pthread_mutex_unlock(&lock);
	if (k)
		name_site(k->freed, where, sizeof where);
	if (k && k->m.base == p)
		memcheck_report("double-free", NULL, k->m.site,
				"%p, %" PRIu64 " bytes, was freed before (%s)", p, k->m.asked,
				*where ? where : "?");
	else
		memcheck_report("invalid-free", NULL, NULL,
				"%p is not the beginning of an allocation", p);
}

bool
memcheck_keep(const struct memory *m)
{
	struct kept *k = memcheck_on() && !m->own ? calloc(1, sizeof *k) : NULL;

	if (!k)
		return false;
	if (kept_bytes > cuda_device_at(m->ordinal)->space->nbytes / 4)
		memcheck_flush(m->ordinal);
	*k = (struct kept){kept, *m, memcheck_site()};
	pthread_mutex_lock(&lock);
	k->next = kept;
	kept = k;
	kept_bytes += m->nbytes;
	pthread_mutex_unlock(&lock);
	return true;
}

bool
memcheck_flush(int ordinal)
{
	struct kept **at = &kept, *gone = NULL, *k;
	bool any;

	pthread_mutex_lock(&lock);
	while ((k = *at))
		if (k->m.ordinal == ordinal) {
			*at = k->next;
			kept_bytes -= k->m.nbytes;
			k->next = gone;
			gone = k;
		} else {
			at = &k->next;
		}
	pthread_mutex_unlock(&lock);
	any = gone != NULL;
	while ((k = gone)) {
		gone = k->next;
		pages_give(&k->m);
		free(k);
	}
	return any;
}

/* One finding for each place that allocated; memory of the library's own threads has none. */
__attribute__((destructor)) static void
report_leaks(void)
{
	struct allocs *a = memcheck_on() && space_shared() ? space_table() : NULL;

	for (size_t i = 0; a && i < a->n; i++) {
		const struct memory *m = &a->v[i];
		uint64_t n = 0, nbytes = 0;

		if (m->kind == MEMORY_REGISTERED || m->own || m->leaving || m->ipc || !m->site)
			continue;
		for (size_t k = 0; k < a->n; k++)
			if (a->v[k].site == m->site && !a->v[k].leaving) {
				n++;
				nbytes += a->v[k].asked;
			}
		memcheck_report("leak", m->site, m->site,
				"%" PRIu64 " allocation%s, %" PRIu64 " bytes, not freed", n,
				n == 1 ? "" : "s", nbytes);
	}
}

/* ------------------------------------------------------------------ in a helper */

void
memcheck_helper(void)
{
	pthread_mutex_init(&lock, NULL); /* another thread may have had it */
}

void
memcheck_mapped(const struct memory *m)
{
	size_t i = 0;

	while (i < nmapped && mapped[i].base != m->base)
		i++;
	if (memcheck_on() && i < MAPPED) {
		mapped[i] = *m;
		nmapped += i == nmapped;
	}
}

void
memcheck_unmapped(const void *p, uint64_t nbytes)
{
	for (size_t i = 0; i < nmapped;)
		if ((uintptr_t)mapped[i].base - (uintptr_t)p < nbytes)
			mapped[i] = mapped[--nmapped];
		else
			i++;
}

void
memcheck_kernel(const char *name)
{
	for (size_t i = 0; i < nmapped; i++) {
		struct memory *m = &mapped[i], now, next;
		const unsigned char *end = m->base + m->nbytes;
		uint64_t at = m->asked;

		if (m->kind == MEMORY_PINNED || m->leaving || m->asked == m->nbytes)
			continue;
		allocs_around(space_table(), m->base, &now, &next);
		if (now.base != m->base || now.overrun)
			continue;
		while (m->base + at < end &&
		       m->base[at] == (unsigned char)(PATTERN >> 8 * (at % 4)))
			at++;
		if (m->base + at == end)
			continue;
		m->leaving = true; /* once */
		memcheck_report("out-of-bounds", m->base, m->site,
				"kernel %s wrote behind a %" PRIu64 "-byte allocation, %" PRIu64
				" bytes after its end",
				name, m->asked, at - m->asked);
	}
}
