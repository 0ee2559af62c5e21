/* Running the host compiler. */
#include "nvcc/compile.h"

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

extern char **environ;

void
command_begin(const struct nvcc *n, struct words *out)
{
	struct stat st;
	bool folder = n->ccbin && stat(n->ccbin, &st) == 0 && S_ISDIR(st.st_mode);

	if (folder)
		words_addf(out, "%s/g++", n->ccbin);
	else if (n->ccbin && strpbrk(n->ccbin, " \t")) /* -ccbin "ccache g++" */
		words_add_parts(out, n->ccbin);
	else
		words_add(out, n->ccbin ? n->ccbin : "g++");
}

/* Print with quotes where a shell needs them. */
static void
print(const struct words *w)
{
	fputs("#$", stderr);
	for (size_t i = 0; i < w->n; i++) {
		const char *s = w->v[i];

		if (strpbrk(s, " \t\n\"\\$`;&|<>()*?!") || !*s) {
			fputs(" '", stderr);
			for (; *s; s++)
				fputs(*s == '\'' ? "'\\''" : (char[]){*s, '\0'}, stderr);
			fputc('\'', stderr);
		} else {
			fprintf(stderr, " %s", s);
		}
	}
	fputc('\n', stderr);
}

enum rc
command_run(const struct nvcc *n, const struct words *w, struct err *err)
{
	pid_t pid;
	int status = 0, e;

	if (n->verbose)
		print(w);
	if (n->dry)
		return RC_OK;
	e = posix_spawnp(&pid, w->v[0], NULL, NULL, w->v, environ);
	if (e)
		return err_set(err, RC_FAILED,
			       "%s: cannot start the host compiler: %s; install g++, or name a C++ "
			       "compiler with -ccbin",
			       w->v[0], strerror(e));
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return err_set(err, RC_FAILED, "%s: %s", w->v[0], strerror(errno));
	if (WIFSIGNALED(status))
		return err_set(err, RC_FAILED, "%s: killed by signal %d", w->v[0],
			       WTERMSIG(status));
	return WEXITSTATUS(status) == 0 ? RC_OK : err_set(err, RC_FAILED, "%s", "");
}
