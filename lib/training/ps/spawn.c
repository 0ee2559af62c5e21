/* Learners that the server starts: this program again, with one option more. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/must.h"
#include "ps/ps_impl.h"

extern char **environ;

/* posix_spawn and not fork: nng has threads. */
static enum rc
spawn_one(char **argv, pid_t *pid, struct err *err)
{
	posix_spawn_file_actions_t actions;
	int rv = posix_spawn_file_actions_init(&actions);

	if (rv == 0) {
		posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
		posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
		rv = posix_spawn(pid, "/proc/self/exe", &actions, NULL, argv, environ);
		posix_spawn_file_actions_destroy(&actions);
	}
	return rv == 0 ? RC_OK
		       : err_set(err, RC_FAILED, "cannot start a learner: %s", strerror(rv));
}

enum rc
ps_spawn(struct ps *ps, const struct ps_options *options, struct err *err)
{
	enum rc rc = RC_OK;
	size_t n = 0;
	char **argv;

	while (options->argv && options->argv[n])
		n++;
	argv = must_alloc(n + 4, sizeof *argv);
	ps->child = must_alloc(ps->nworkers + 1, sizeof *ps->child);
	argv[0] = program_invocation_name;
	for (size_t i = 0; i < n; i++)
		argv[i + 1] = options->argv[i];
	argv[n + 1] = (char *)"--learn";
	argv[n + 2] = (char *)rpc_server_address(ps->server);
	for (uint32_t i = 0; i < ps->nworkers && rc == RC_OK; i++) {
		rc = spawn_one(argv, &ps->child[i].pid, err);
		ps->nchildren += rc == RC_OK;
	}
	free(argv);
	return rc;
}

static void
look(struct child *c)
{
	c->ended = c->ended || waitpid(c->pid, NULL, WNOHANG) != 0;
}

bool
ps_ended(struct ps *ps, uint32_t pid)
{
	for (uint32_t i = 0; i < ps->nchildren; i++)
		if ((uint32_t)ps->child[i].pid == pid) {
			look(&ps->child[i]);
			return ps->child[i].ended;
		}
	return false;
}

/* Return true if they have all ended. */
static bool
collect(struct ps *ps)
{
	bool all = true;

	for (uint32_t i = 0; i < ps->nchildren; i++) {
		look(&ps->child[i]);
		all = all && ps->child[i].ended;
	}
	return all;
}

void
ps_reap(struct ps *ps)
{
	uint64_t deadline = deadline_in_ms(ps_goodbye_ms(ps));

	while (!collect(ps) && deadline_left_ms(deadline) > 0)
		clock_sleep(5 * NS_PER_MS);
	for (uint32_t i = 0; i < ps->nchildren; i++)
		if (!ps->child[i].ended) {
			kill(ps->child[i].pid, SIGKILL);
			waitpid(ps->child[i].pid, NULL, 0);
		}
}
