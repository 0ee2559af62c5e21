#include "net/leftover.h"

#include <dirent.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "net/net.h"
#include "net/times.h"

union name {
	struct sockaddr any;
	struct sockaddr_un un;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	char room[sizeof(struct sockaddr_un) + 1]; /* a path of full length has no NUL of its own */
};

static bool
is_name(const union name *sa, const char *addr)
{
	const char *port = strrchr(addr, ':');

	if (sa->any.sa_family == AF_UNIX)
		return strncmp(addr, "ipc://", 6) == 0 && strcmp(sa->un.sun_path, addr + 6) == 0;
	if (!net_addr_host(addr) || !port)
		return false;
	return (sa->any.sa_family == AF_INET && ntohs(sa->in.sin_port) == atoi(port + 1)) ||
	       (sa->any.sa_family == AF_INET6 && ntohs(sa->in6.sin6_port) == atoi(port + 1));
}

/* Is fd a socket whose own end is at addr; or, on one machine, whose other end is: that is the
 * guard's, nobody else here talks to ourselves. */
static bool
is_at(int fd, const char *addr)
{
	union name sa = {0};
	socklen_t len = sizeof sa - 1;

	if (getsockname(fd, &sa.any, &len) != 0)
		return false;
	if (is_name(&sa, addr))
		return true;
	if (sa.any.sa_family != AF_UNIX)
		return false;
	sa = (union name){0};
	len = sizeof sa - 1;
	return getpeername(fd, &sa.any, &len) == 0 && is_name(&sa, addr);
}

static void
add(struct leftovers *l, int fd, uint64_t inode, uint64_t due_ns)
{
	if (l->n == l->cap) {
		struct leftover *v = alloc_resize(l->v, l->cap * 2 + 64, sizeof *v);

		if (!v)
			return; /* found again the next time, if there is one */
		l->v = v;
		l->cap = l->cap * 2 + 64;
	}
	l->v[l->n++] = (struct leftover){fd, inode, due_ns};
}

void
leftovers_note(struct leftovers *l, const char *addr, uint64_t now_ns)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *e;
	struct stat st;

	while (dir && (e = readdir(dir))) {
		int fd = atoi(e->d_name);

		if (e->d_name[0] != '.' && fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode) &&
		    is_at(fd, addr))
			add(l, fd, st.st_ino, now_ns + NET_LEFTOVER_MS * NS_PER_MS);
	}
	if (dir)
		closedir(dir);
}

void
leftovers_sweep(struct leftovers *l, uint64_t now_ns)
{
	size_t kept = 0;
	struct stat st;

	for (size_t i = 0; i < l->n; i++) {
		struct leftover *o = &l->v[i];

		if (now_ns < o->due_ns)
			l->v[kept++] = *o;
		else if (fstat(o->fd, &st) == 0 && S_ISSOCK(st.st_mode) && st.st_ino == o->inode)
			close(o->fd);
	}
	l->n = kept;
}

void
leftovers_fini(struct leftovers *l)
{
	free(l->v);
	*l = (struct leftovers){0};
}
